"""`python -m streammine`: the same as the command `streammine`."""

from __future__ import annotations

from streammine.cli.main import main

if __name__ == "__main__":
    main()
