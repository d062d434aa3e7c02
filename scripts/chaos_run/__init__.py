"""Runs a topology again and again while processes die, hang and disks fail, and compares what comes out.

Nothing here knows how recovery works: it does from outside what the world does, and the digest of the
output must be that of an undisturbed run.
"""
