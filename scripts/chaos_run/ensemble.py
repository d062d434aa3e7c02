"""A ZooKeeper on one host of a network, started again whenever it dies: `python -m chaos_run.ensemble`."""

from __future__ import annotations

import signal
import sys

from streammine.runtime.zookeeper import ZooKeeperServer

PORT = 2181
READY = "ZooKeeper is ready"


def main() -> None:
    host, folder = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ZooKeeperServer(folder, PORT, host) as server:
        print(READY, flush=True)
        while True:
            server.process.wait()
            server.start()


if __name__ == "__main__":
    main()
