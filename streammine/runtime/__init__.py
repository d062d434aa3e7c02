"""The real shell's parts: processes, ZooKeeper, sockets, stores. Does the I/O that machines ask
for.
"""
