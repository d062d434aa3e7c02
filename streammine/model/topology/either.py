"""One feed with several receivers: per epoch the bag of one of them counts (DESIGN §5, "Agreement")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from streammine.model.suggestions import listed
from streammine.model.topology.parts import Name
from streammine.model.topology.problems import Path, Problem, wrong_value
from streammine.model.topology.stateless import (
    ON_ERROR_ELSEWHERE,
    STATELESS_ELSEWHERE,
    OperatorBase,
)

if TYPE_CHECKING:
    from streammine.model.topology.definition import Topology

MOST_RECEIVERS = 8


def _several(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) < 2:
        raise wrong_value("either chooses from two sources at least, like [east, west]")
    for name in names:
        if names.count(name) > 1:
            raise wrong_value(f"'{name}' stands there twice; each receiver is a source of its own")
    return names


class EitherOperator(OperatorBase):
    """The rows of one of several sources that receive the same feed, chosen for each epoch."""

    label: ClassVar[str] = "an either"
    elsewhere: ClassVar[dict[str, str]] = {
        **STATELESS_ELSEWHERE,
        **ON_ERROR_ELSEWHERE,
        **dict.fromkeys(
            ("input", "inputs"), "write either: [NAME, NAME], the sources to choose from"
        ),
        **dict.fromkeys(
            ("replicas", "scheme"),
            "who reads from it agrees on whose rows count; give it to that operator or sink",
        ),
    }
    kind: ClassVar[str] = "either"
    stateless: ClassVar[bool] = True
    stateless_kind: ClassVar[Literal["stateless", "either", "union"]] = "either"

    either: Annotated[tuple[Name, ...], AfterValidator(_several)] = Field(
        min_length=1,
        max_length=MOST_RECEIVERS,
        description="Sources that receive the same feed, with the same columns and as many slices each. What "
        "they got may differ; for each epoch the rows of one of them are taken, and all replicas of whoever "
        "reads them agree on whose (but under discipline merge or none).",
        examples=[["east", "west"]],
    )

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.either

    def input_place(self, port: int) -> Path:
        return ("either", port)


def choice_of(topology: Topology, name: str) -> str | None:
    """The either whose rows an operator chooses: what it reads, with nothing in between that has
    slices of its own."""
    operators = topology.every_operator
    waiting = list(operators[name].input_names)
    seen = set()
    while waiting:
        each = waiting.pop()
        operator = operators.get(each)
        if isinstance(operator, EitherOperator):
            return each
        if operator is not None and operator.stateless and each not in seen:
            seen.add(each)
            waiting += operator.input_names
    return None


def either_problems(topology: Topology) -> Iterator[Problem]:
    """What keeps replicas from agreeing on whose rows count."""
    for name, operator in topology.operators.items():
        if isinstance(operator, EitherOperator):
            path: Path = ("operators", name, "either")
            yield from _of_sources(topology, path, operator)
            yield from _of_the_job(topology, path)


def _of_sources(topology: Topology, path: Path, operator: EitherOperator) -> Iterator[Problem]:
    for place, each in enumerate(operator.either):
        if each in topology.operators:
            yield Problem(
                (*path, place),
                f"'{each}' is an operator; either chooses among sources, and what is to be done with the "
                "rows is done behind it",
            )
    slices = {
        each: topology.sources[each].slices for each in operator.either if each in topology.sources
    }
    if len(set(slices.values())) > 1:
        counts = listed(f"{each} has {count}" for each, count in slices.items())
        yield Problem(
            path,
            f"receivers of one feed share it in the same way, so they have as many slices each; {counts}",
        )


def _of_the_job(topology: Topology, path: Path) -> Iterator[Problem]:
    if topology.epoch.time is None:
        yield Problem(
            path,
            "receivers that miss different rows count them differently, and a row would be in other epochs "
            "here and there; write epoch: {time: 1s, column: ts}",
        )
    if topology.snapshot.mode == "none":
        yield Problem(
            path,
            "what was agreed on is kept until a checkpoint covers it, and snapshot: none makes none; write "
            "snapshot: {every: 1s}",
        )
