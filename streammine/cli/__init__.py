"""The commands. `main` is the entry point."""
