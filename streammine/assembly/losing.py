"""Where gap recovery may lose epochs, and why it may not elsewhere: for `explain`, and to refuse what would
change nothing."""

from __future__ import annotations

from streammine.model.disciplines import Discipline
from streammine.model.errors import TopologyError
from streammine.model.job import JobGraph, Vertex


def window_epochs(vertex: Vertex, commit_every: int) -> int:
    """For how many epochs together one that is lost counts. `commit_every`: of a sink."""
    return commit_every if vertex.kind == "sink" else vertex.window_epochs or 1


def lost_together(vertex: Vertex, commit_every: int) -> tuple[int, int]:
    """The length of its windows, and how far apart they begin: with an epoch all are lost that hold it."""
    epochs = window_epochs(vertex, commit_every)
    return epochs, vertex.slide_epochs or epochs


def check_may_lose(graph: JobGraph) -> None:
    """Raises TopologyError where gap recovery could never leave an epoch out."""
    stateful = [vertex.name for vertex in graph.vertices if vertex.kind == "stateful"]
    if graph.may_lose:
        return
    if not stateful:
        raise TopologyError(
            "recovery: semantics: gap has nothing to leave out here: sources read again, sinks keep what "
            "they were given, and there is no operator with slices of its own; write semantics: precise"
        )
    name = stateful[-1]
    raise TopologyError(
        f"recovery: semantics: gap has no operator here that it may leave epochs out of: {name!r} would lose "
        f"for ever, since {reason_to_keep(graph, name)}; write semantics: precise, or aggregate, join or "
        "reduce in windows",
        part=name,
    )


def reason_to_keep(graph: JobGraph, name: str) -> str:
    """Why an operator, which may not lose, must not."""
    keeper = graph.never_forgetting(name)[0]
    who = "it" if keeper == name else f"{keeper!r}, which it leads to,"
    if graph.loop(keeper) is not None:
        return f"{who} goes round in a loop"
    if keeper in graph.choosing:
        return f"{who} has replicas that choose, epoch by epoch, whose rows count"
    if graph.vertex(keeper).discipline is Discipline.CONSENSUS:
        return f"{who} has discipline consensus"
    return f"{who} keeps state without end"
