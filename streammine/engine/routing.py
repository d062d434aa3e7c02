"""Where what a node's slices ask for goes: to other slices of the node, to other nodes, or to the shell.

Whatever passes between two slices of one node is passed on by reference within one step. News of links is
gathered, so that there is one message for each other node and step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from streammine.engine import stimuli
from streammine.engine.hosted_job import HostedJob
from streammine.engine.node_stimuli import (
    MakeSure,
    MoveToDisk,
    NodeEffect,
    Perform,
    TransmitControl,
    TransmitFrame,
    WakeSlice,
    WriteSnapshot,
)
from streammine.engine.output_channel import Outgoing
from streammine.engine.slice import SliceMachine
from streammine.model import agreement, control
from streammine.model.ids import SliceId


class RoutingNode(ABC):
    """The part of a node that hands on. `jobs` are those that it knows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: dict[int, HostedJob] = {}
        self._local: deque[tuple[int, SliceId, stimuli.Stimulus]] = deque()
        self._making: set[MakeSure] = set()
        self._unsure: set[MakeSure] = set()
        self._news: dict[
            tuple[type[control.LinkNews], str, int], list[control.LinkRow | control.RangeRow]
        ] = {}

    @abstractmethod
    def _control(
        self, sender: str, message: control.ControlMessage, effects: list[NodeEffect]
    ) -> None:
        """A message has come, be it from here."""

    @abstractmethod
    def _report(self, effects: list[NodeEffect]) -> None:
        """Tell the manager where this node is."""

    def _at_source(self, number: int, channel: int, stimulus: stimuli.Stimulus) -> None:
        job = self.jobs.get(number)
        if job is not None and 0 <= channel < len(job.channels):
            self._local.append((number, job.channels[channel].source, stimulus))

    def _at_target(self, number: int, channel: int, stimulus: stimuli.Stimulus) -> None:
        job = self.jobs.get(number)
        if job is not None and 0 <= channel < len(job.channels):
            self._local.append((number, job.channels[channel].target, stimulus))

    def _slice_effect(
        self,
        job: HostedJob,
        machine: SliceMachine,
        effect: stimuli.Effect,
        effects: list[NodeEffect],
    ) -> None:
        replica = number, slice_id, _ = job.number, machine.slice_id, machine.generation
        match effect:
            case stimuli.Run(work, repeats, late_bytes):
                catches_up = repeats and job.doubled(slice_id)
                spare = job.stands_behind(machine)
                effects.append(Perform(*replica, work, catches_up, spare, late_bytes))
            case stimuli.SendFrame(frame):
                self._send(job, frame, effects)
            case stimuli.GrantCredit(channel, sender, receiver, frontier):
                node = job.nodes.get((job.channels[channel].source, sender))
                link = (channel, sender, receiver, frontier)
                self._tell_of_link(node, control.Credits, number, link, effects)
            case stimuli.TellUnwanted(channel, sender, receiver, epochs):
                node = job.nodes.get((job.channels[channel].source, sender))
                unwanted = (channel, sender, receiver, *epochs)
                self._tell_of_link(node, control.Unwanted, number, unwanted, effects)
            case stimuli.AskSubscription(channel, sender, receiver, from_epoch, frontier):
                wish = control.Subscribe(number, channel, sender, receiver, from_epoch, frontier)
                self._tell_source(job, channel, sender, wish, effects)
            case stimuli.AskResend(channel, sender, receiver, sequence):
                request = control.ResendRequest(number, channel, sender, receiver, sequence)
                self._tell_source(job, channel, sender, request, effects)
            case stimuli.Announce(channel, sender, receiver, next_sequence):
                node = job.nodes.get((job.channels[channel].target, receiver))
                link = (channel, sender, receiver, next_sequence)
                self._tell_of_link(node, control.Announcements, number, link, effects)
            case stimuli.WakeAfter(seconds, ticks):
                effects.append(WakeSlice(*replica, seconds, ticks))
            case stimuli.TellReplicas(receivers, message):
                self._tell_replicas(job, slice_id, receivers, message, effects)
            case stimuli.MakeSure(wish):
                self._make_sure(MakeSure(*replica, wish), effects)
            case stimuli.WriteSnapshot(frozen, previous):
                effects.append(WriteSnapshot(*replica, frozen, previous))
            case stimuli.ToDisk(bodies):
                effects.append(MoveToDisk(*replica, bodies))
            case stimuli.SliceFinished() | stimuli.Progressed():
                self._report(effects)

    def _make_sure(self, wish: MakeSure, effects: list[NodeEffect]) -> None:
        """Replicas repeat what they were not answered; that is done once."""
        if wish not in self._making:
            self._making.add(wish)
            effects.append(wish)

    def _tell_replicas(
        self,
        job: HostedJob,
        slice_id: SliceId,
        receivers: tuple[int, ...],
        message: agreement.AgreementMessage,
        effects: list[NodeEffect],
    ) -> None:
        for receiver in receivers:
            node = job.nodes.get((slice_id, receiver))
            if node is not None:
                told = _told((job.number, slice_id, receiver), message)
                self._tell(node, told, effects)

    def _tell_of_link(
        self,
        node: str | None,
        kind: type[control.LinkNews],
        job: int,
        link: control.LinkRow | control.RangeRow,
        effects: list[NodeEffect],
    ) -> None:
        """At once on this node, else together with what there is to say by the end of the step."""
        if node == self.name:
            (message,) = control.in_messages(kind, job, (link,))
            self._control(node, message, effects)
        elif node is not None:
            self._news.setdefault((kind, node, job), []).append(link)

    def _spread_news(self, effects: list[NodeEffect]) -> None:
        """What the slices had to say of links, together for each other node."""
        for (kind, node, job), links in self._news.items():
            for message in control.in_messages(kind, job, links):
                effects.append(TransmitControl(node, message))
        self._news.clear()

    def _send(self, job: HostedJob, frame: Outgoing, effects: list[NodeEffect]) -> None:
        header = frame.header
        target = job.channels[header.channel].target
        node = job.nodes.get((target, header.receiver))
        if node == self.name:
            arrived = stimuli.FrameArrived(header, frame.body, frame.nbytes)
            self._local.append((job.number, target, arrived))
        elif node is not None:
            effects.append(TransmitFrame(node, frame))

    def _tell_source(
        self,
        job: HostedJob,
        channel: int,
        sender: int,
        message: control.ControlMessage,
        effects: list[NodeEffect],
    ) -> None:
        node = job.nodes.get((job.channels[channel].source, sender))
        if node is not None:
            self._tell(node, message, effects)

    def _tell(self, node: str, message: control.ControlMessage, effects: list[NodeEffect]) -> None:
        if node == self.name:
            self._control(self.name, message, effects)
        else:
            effects.append(TransmitControl(node, message))


def _told(
    to: tuple[int, SliceId, int], message: agreement.AgreementMessage
) -> control.AgreementTold:
    match message:
        case agreement.Report():
            return control.StandingTold(*to, message)
        case agreement.Pulse():
            return control.PulseTold(*to, message)
        case agreement.Decisions():
            return control.DecisionsTold(*to, message)
