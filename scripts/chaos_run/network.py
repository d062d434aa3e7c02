"""Hosts with a real network between them, whose cables can be slow, lossy or cut.

::

    host a  ── TUN ──┐                       each host is a network namespace with an address of its own
    host b  ── TUN ──┼── switch (a thread)   and nothing but a cable to the switch, so nothing gets in or
    host c  ── TUN ──┘                       out; what the kernel sends there, the switch passes on or not

The kernels' own TCP, with its time-outs, is at both ends of every cable. Delay and loss are made by the
switch and not by `tc netem`, which many kernels lack; and so each direction of each pair of hosts can be
harmed by itself, from a seed.

Nothing here has a name that could stay behind: namespaces and devices live as long as the processes in them,
and those end with the socket that this process holds.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, permutations
from pathlib import Path
from random import Random
from types import TracebackType

PREFIX = "10.77.0."
MTU_BYTES = 9000
_PACKETS_KEPT = 20_000
_PACKETS_PER_TURN = 64
_PLUG_SECONDS = 10.0
_END_SECONDS = 10.0
_TUN = Path("/dev/net/tun")
_TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}


class NetworkError(Exception):
    """There can be no such network here."""


@dataclass(frozen=True)
class Cable:
    """What happens to packets in one direction between two hosts. `loss` is a share of them.

    Each is late by `delay_seconds` and up to `jitter_seconds` more, so that they overtake each other.
    """

    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0
    loss: float = 0.0
    cut: bool = False


SOUND = Cable()
CUT = Cable(cut=True)


def obstacle() -> str | None:
    """Why there can be no such network on this machine, None where there can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            return f"there is no `{tool}` (package {package})"
    if not _TUN.exists():
        return f"there is no {_TUN}"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "tuntap", "add", "mode", "tun"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode != 0:
        return f"no network namespace with a TUN device: {tried.stderr.strip()}"
    return None


class _Host:
    """A namespace, and the descriptor of its cable's other end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket, inherited = socket.socketpair()
        try:
            with inherited:
                number = inherited.fileno()
                script = Path(__file__).with_name("host.py")
                python = (sys.executable, "-I", str(script), str(number), address, str(MTU_BYTES))
                self.process = subprocess.Popen(
                    ["unshare", "--net", *python],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[number],
                    start_new_session=True,
                )
        except BaseException:
            self._socket.close()
            raise
        self.descriptor = -1

    def plug_in(self) -> None:
        """Raises NetworkError when the host does not come up."""
        self._socket.settimeout(_PLUG_SECONDS)
        try:
            _, descriptors, _, _ = socket.recv_fds(self._socket, 64, 1)
        except TimeoutError:
            descriptors = []
        if not descriptors:
            self._socket.close()
            assert self.process.stderr is not None
            reason = self.process.stderr.read().decode().strip()
            raise NetworkError(f"host {self.address} does not come up: {reason}")
        self.descriptor = descriptors[0]

    def close(self) -> None:
        """End everything on it."""
        self._socket.close()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Network:
    """Hosts by name, all joined. As a context manager it leaves nothing behind. Raises NetworkError."""

    def __init__(self, names: Iterable[str], seed: int = 0) -> None:
        self.passed: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()
        self._random = Random(seed)
        self._names: list[str] = []
        self._hosts: list[_Host] = []
        self._cables: dict[tuple[int, int], Cable] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._numbers = count()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._closing = False
        self._thread = threading.Thread(target=self._switch, name="switch", daemon=True)
        try:
            for number, name in enumerate(names, 1):
                self._hosts.append(_Host(f"{PREFIX}{number}"))
                self._names.append(name)
            for host in self._hosts:
                host.plug_in()
        except BaseException:
            self.close()
            raise
        self._thread.start()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self._names)

    def address(self, name: str) -> str:
        return self._hosts[self._names.index(name)].address

    def on(self, name: str, command: Sequence[str]) -> list[str]:
        """The command line that runs a command on a host."""
        pid = self._hosts[self._names.index(name)].process.pid
        return ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *command]

    # --- harm -----------------------------------------------------------------------------------

    def lay(self, cable: Cable, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """This cable now goes from each of these to each of those."""
        receivers = tuple(receivers)
        for sender in senders:
            for receiver in receivers:
                if sender != receiver:
                    ends = (self._names.index(sender), self._names.index(receiver))
                    self._cables[ends] = cable

    def split(self, some: Sequence[str], others: Sequence[str] | None = None) -> None:
        """Nothing passes between these and those (all the rest), in both directions."""
        if others is None:
            others = [name for name in self._names if name not in some]
        self.lay(CUT, some, others)
        self.lay(CUT, others, some)

    def everywhere(self, cable: Cable) -> None:
        for sender, receiver in permutations(self._names, 2):
            self.lay(cable, [sender], [receiver])

    def heal(self) -> None:
        """All cables are sound again."""
        self._cables.clear()

    # --- the switch -----------------------------------------------------------------------------

    def _switch(self) -> None:
        by_address = {
            socket.inet_aton(host.address): number for number, host in enumerate(self._hosts)
        }
        by_descriptor = {host.descriptor: number for number, host in enumerate(self._hosts)}
        poller = select.poll()
        for descriptor in (self._wake, *by_descriptor):
            poller.register(descriptor, select.POLLIN)
        while not self._closing:
            for descriptor, _ in poller.poll(self._wait_milliseconds()):
                if descriptor in by_descriptor:
                    self._take(descriptor, by_descriptor[descriptor], by_address)
            now = time.monotonic()
            while self._late and self._late[0][0] <= now:
                _, _, receiver, packet = heappop(self._late)
                self._deliver(receiver, packet)

    def _wait_milliseconds(self) -> int | None:
        if not self._late:
            return None
        return max(0, -int(-(self._late[0][0] - time.monotonic()) * 1000 // 1))

    def _take(self, descriptor: int, sender: int, by_address: dict[bytes, int]) -> None:
        for _ in range(_PACKETS_PER_TURN):
            try:
                packet = os.read(descriptor, MTU_BYTES)
            except OSError:
                # no more of them
                return
            # an IPv4 header: the version in its first byte, the destination in bytes 16 to 19
            receiver = by_address.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if receiver is not None:
                self._pass_on(sender, receiver, packet)

    def _pass_on(self, sender: int, receiver: int, packet: bytes) -> None:
        cable = self._cables.get((sender, receiver), SOUND)
        ends = (self._names[sender], self._names[receiver])
        full = len(self._late) >= _PACKETS_KEPT
        if cable.cut or full or self._random.random() < cable.loss:
            self.dropped[ends] += 1
            return
        self.passed[ends] += 1
        late_seconds = cable.delay_seconds + cable.jitter_seconds * self._random.random()
        if late_seconds == 0.0:
            self._deliver(receiver, packet)
            return
        due = time.monotonic() + late_seconds
        heappush(self._late, (due, next(self._numbers), receiver, packet))

    def _deliver(self, receiver: int, packet: bytes) -> None:
        # a host that takes no more loses it, as hosts do
        with contextlib.suppress(OSError):
            os.write(self._hosts[receiver].descriptor, packet)

    def close(self) -> None:
        """End everything on every host. May be called more than once."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        for host in self._hosts:
            host.close()
        os.close(self._wake)

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
