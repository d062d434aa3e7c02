"""A topology: sources, operators and sinks, and the epoch that cuts their streams."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from streammine.model.epochs import EpochDefinition
from streammine.model.errors import TopologyError
from streammine.model.recovery_policy import RecoveryGoal
from streammine.model.schemes import Scheme
from streammine.model.topology.checks import problems_in
from streammine.model.topology.epoch import Epoch
from streammine.model.topology.graph import TopologyGraph, topology_graph
from streammine.model.topology.merging import SplitOperator, SplitOutput
from streammine.model.topology.operators import Operator
from streammine.model.topology.parts import (
    BY_VALUE_PREFIX,
    MOST_NODES,
    NO_BOOLEAN,
    Name,
    Part,
    Replicas,
    SchemeField,
    TextsOrNone,
)
from streammine.model.topology.places import Places
from streammine.model.topology.problems import InvalidTopologyError, problems_of
from streammine.model.topology.recovery import Recovery, RecoveryField
from streammine.model.topology.sinks import Sink
from streammine.model.topology.snapshot import Snapshot, SnapshotField
from streammine.model.topology.sources import Source, SourceBase

MOST_PARTS = 1_000
"""Sources, operators and sinks each, at most."""


def _with_short_form(schema: dict[str, Any]) -> None:
    """In the JSON Schema: ``snapshot: none`` beside the mapping."""
    reference = schema.pop("$ref")
    schema["anyOf"] = [{"const": "none"}, {"$ref": reference}]


class Topology(Part):
    """What runs: sources → operators → sinks, cut into epochs.

    Built from a document (see `streammine.model.document`) or in Python, where each step returns a
    new topology and leaves the old one as it was::

        topology = (
            Topology(name="wordcount", epoch={"count": 100_000})
            .source("lines", files="data/*.txt")
            .operator("words", input="lines", flat_map={"split": "line", "into": "word"})
            .operator("counts", input="words", key="word", aggregate={"count": "count()"})
            .sink("result", input="counts", format="parquet", path="out")
        )

    The fields are those of the document. ``operator=`` takes a class or an instance, too: its code
    is kept apart (`code`) and the field becomes ``value:NAME``, so `model_dump(mode="json")` is
    plain data that `Topology.model_validate` takes back. Whatever is wrong raises TopologyError: at
    once within one part, and in `check` what must hold between parts.
    """

    label: ClassVar[str] = "topology"
    elsewhere: ClassVar[dict[str, str]] = {
        "source": "write sources: {NAME: {...}}",
        "operator": "write operators: {NAME: {...}}",
        "sink": "write sinks: {NAME: {...}}",
        "slices": "each source and operator has its own",
    }

    name: Name = Field(
        default="topology",
        description="Name of the job. Default: the name of the file.",
        examples=["wordcount"],
    )
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES), NO_BOOLEAN] = Field(
        default=2,
        description="Node processes that share the work; they never change the result.",
    )
    replicas: Replicas | None = Field(
        default=None,
        description="Replicas of each slice, on different nodes. They never change the result. Live "
        "sources have one. Default: 1, or 2 where there is a scheme.",
        examples=[2],
    )
    scheme: SchemeField | None = Field(
        default=None,
        description="How ready the further replicas of each slice stand for when the first one is lost: "
        "passive-replication (there are none), deployed, passive-standby-cold, passive-"
        "standby-hot, active-standby, or active-replication (their output counts, too). "
        "Default: active-replication where there are replicas.",
        examples=["active-standby"],
    )
    epoch: Epoch = Field(
        description="How streams are cut into epochs, the units of ordering, windows and output: "
        "{count: 100000} or {time: 60s, column: ts}.",
        examples=[{"count": 100_000}, {"time": "60s", "column": "ts", "unit": "s"}],
    )
    snapshot: SnapshotField = Field(
        default_factory=Snapshot,
        description="How often the state is saved, so that the job survives crashes: "
        "{every: 1s}, {every: 10 epochs}, or none.",
        examples=[{"every": "1s"}, "none"],
        json_schema_extra=_with_short_form,
    )
    recovery: RecoveryField = Field(
        default=None,
        description="How long recoveries may take; the cheapest way that keeps to it is chosen at "
        "run time, for each slice: {max_time: 2s}. Default: nothing is chosen.",
        examples=[{"max_time": "2s", "semantics": "precise"}],
    )
    modules: TextsOrNone = Field(
        default=(),
        description="Files with code of your own, relative to the topology's folder. Optional: "
        "modules are found from that folder by their path anyway.",
        examples=[["operators.py"]],
    )
    sources: dict[Name, Source] = Field(
        default_factory=dict,
        max_length=MOST_PARTS,
        description="Where rows come from, by name.",
        examples=[{"readings": {"files": "data/*.parquet"}}],
    )
    operators: dict[Name, Operator] = Field(
        default_factory=dict,
        max_length=MOST_PARTS,
        description="What happens to rows, by name. The order in the file is free.",
        examples=[{"high": {"input": "readings", "filter": "value > 3"}}],
    )
    sinks: dict[Name, Sink] = Field(
        default_factory=dict,
        max_length=MOST_PARTS,
        description="Where results go, by name.",
        examples=[{"result": {"input": "high", "format": "parquet", "path": "out"}}],
    )

    _code: dict[str, object] = PrivateAttr(default_factory=dict)
    _places: Places = PrivateAttr(default_factory=Places)

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str = "topology",
            nodes: int = 2,
            replicas: int | None = None,
            scheme: Scheme | str | None = None,
            epoch: Epoch | Mapping[str, Any],
            snapshot: Snapshot | Mapping[str, Any] | Literal["none"] = ...,
            recovery: Recovery | Mapping[str, Any] | None = None,
            modules: str | Sequence[str] = (),
            sources: Mapping[str, Any] | None = None,
            operators: Mapping[str, Any] | None = None,
            sinks: Mapping[str, Any] | None = None,
        ) -> None: ...

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            problems = problems_of(error.errors(include_url=False))
            raise InvalidTopologyError(problems) from None

    def source(self, name: str, **fields: Any) -> Topology:
        """This topology with one more source; fields as in a document under ``sources``."""
        return self._with_part("sources", name, fields)

    def operator(self, name: str, **fields: Any) -> Topology:
        """This topology with one more operator; fields as in a document under ``operators``.

        ``operator=`` is a class, an instance or ``"module:Class"``. Keyword arguments of a class go
        into ``with_={...}`` (an instance has had its own).
        """
        code = fields.get("operator")
        if code is None or isinstance(code, str):
            return self._with_part("operators", name, fields)
        _refuse_code(name, code, fields)
        changed = self._with_part(
            "operators", name, {**fields, "operator": f"{BY_VALUE_PREFIX}{name}"}
        )
        changed._code = {**self._code, name: code}
        return changed

    def sink(self, name: str, **fields: Any) -> Topology:
        """This topology with one more sink; fields as in a document under ``sinks``."""
        return self._with_part("sinks", name, fields)

    @property
    def every_operator(self) -> dict[str, Operator | SplitOutput]:
        """The operators, and behind each split its outputs, by the names that readers give them."""
        every: dict[str, Operator | SplitOutput] = {}
        for name, operator in self.operators.items():
            every[name] = operator
            if isinstance(operator, SplitOperator):
                every |= operator.outputs(name)
        return every

    @property
    def code(self) -> Mapping[str, object]:
        """Classes and instances that were handed over by value, by their operators' names."""
        return MappingProxyType(self._code)

    @property
    def recovery_goal(self) -> RecoveryGoal | None:
        return None if self.recovery is None else self.recovery.goal

    @property
    def paced_sources(self) -> tuple[str, ...]:
        """Those whose rows come in a time of their own, whether anybody takes them or not."""
        sources = self.sources.items()
        return tuple(
            name for name, each in sources if not isinstance(each, SourceBase) or each.is_paced
        )

    def epoch_definition(self) -> EpochDefinition:
        return self.epoch.definition

    def graph(self) -> TopologyGraph:
        """Who reads from whom; for a topology that `check` found right."""
        return topology_graph(self)

    def check(self) -> Topology:
        """This topology, if it can run. Raises TopologyError with everything that is wrong.

        References, names, loops, windows, schemas and promises are checked here, where all parts
        are there; fields by themselves were when their part was made.
        """
        problems = problems_in(self)
        if problems:
            raise InvalidTopologyError(problems)
        return self

    @property
    def places(self) -> Places:
        """Where its parts stand in the file that it came from."""
        return self._places

    def placed(self, places: Places) -> Topology:
        """The same, come from there."""
        changed = self.model_copy()
        changed._places = places
        return changed

    def warnings(self) -> list[str]:
        """What is probably not meant, though it can run."""
        return [
            f"'{name}' leads to no sink, so it is not run; give it a sink or take it out"
            for name in self.graph().unused
        ]

    def _with_part(self, section: str, name: str, fields: Mapping[str, Any]) -> Topology:
        for other in ("sources", "operators", "sinks"):
            if name in getattr(self, other):
                raise TopologyError(
                    f"{section}.{name}: the name '{name}' stands under {other} already; "
                    "sources, operators and sinks need different names"
                )
        try:
            parts = _SECTIONS[section].validate_python({name: dict(fields)})
        except ValidationError as error:
            problems = problems_of(error.errors(include_url=False))
            raise InvalidTopologyError(
                [type(one)((section, *one.path), one.text, one.at_key) for one in problems]
            ) from None
        return self.model_copy(update={section: {**getattr(self, section), **parts}})


_SECTIONS: dict[str, TypeAdapter[Any]] = {
    "sources": TypeAdapter(dict[Name, Source]),
    "operators": TypeAdapter(dict[Name, Operator]),
    "sinks": TypeAdapter(dict[Name, Sink]),
}


def _refuse_code(name: str, code: object, fields: Mapping[str, Any]) -> None:
    where = f"operators.{name}.operator"
    if inspect.isroutine(code):
        raise TopologyError(
            f"{where}: a function is no operator; make a Mapper, Reducer or Operator class"
        )
    if isinstance(code, bool | int | float | bytes | dict | list | tuple | set):
        raise TopologyError(
            f"{where}: takes a class, an instance or 'module:Class', not {type(code).__name__}"
        )
    settings = fields.get("with") or fields.get("with_")
    if settings and not isinstance(code, type):
        raise TopologyError(
            f"operators.{name}.with: an instance has had its arguments already; "
            f"pass the class {type(code).__name__} with these, or the instance without"
        )
