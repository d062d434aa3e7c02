"""Processes that carry a mark in their environment, which their children inherit."""

from __future__ import annotations

import psutil


def marked_processes(name: str, value: str, *words: str) -> list[psutil.Process]:
    """Living processes whose environment variable `name` is `value`, and that have these words in their
    command, by process number."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(name) == value
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                line = " ".join(process.cmdline())
                if all(word in line for word in words):
                    found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return sorted(found, key=lambda process: process.pid)
