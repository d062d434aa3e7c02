"""The first process on a host of `network`: it plugs the host in, and ends everything on it at the end.

Runs by its path in a network namespace of its own: `host.py SOCKET ADDRESS MTU`. Through the inherited
socket it hands over the other end of the host's cable. When that socket is closed, however its owner ended,
it kills every process in the namespace, which is gone with the last of them.
"""

import contextlib
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

CABLE = "cable"
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_ENDS = 50


def plugged_in(address: str, mtu: str) -> int:
    """A TUN device that is the namespace's only way out; the descriptor that its packets come from."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = struct.pack("16sH22x", CABLE.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(descriptor, _TUNSETIFF, request)
    for arguments in (
        ("addr", "add", f"{address}/24", "dev", CABLE),
        ("link", "set", CABLE, "mtu", mtu, "up"),
        ("link", "set", "lo", "up"),
    ):
        subprocess.run(["ip", *arguments], check=True)
    return descriptor


def neighbours() -> list[int]:
    """The other processes in this network namespace."""
    own = os.readlink("/proc/self/ns/net")
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(place.name) != os.getpid() and os.readlink(place / "ns/net") == own:
                found.append(int(place.name))
    return found


def main() -> None:
    number, address, mtu = sys.argv[1:]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    with socket.socket(fileno=int(number)) as owner:
        descriptor = plugged_in(address, mtu)
        socket.send_fds(owner, [b"plugged in"], [descriptor])
        os.close(descriptor)
        owner.recv(1)
    # those that are killed may just have started others
    for _ in range(_ENDS):
        found = neighbours()
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
