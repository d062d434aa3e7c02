"""Code of the user's own as an operator."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from streammine.model.topology.keyed import CombineField, KeyedFields, Windowed
from streammine.model.topology.parts import (
    BY_VALUE_PREFIX,
    LONGEST_TEXT,
    MOST_ENTRIES,
    Columns,
    PlainSettings,
    StreamName,
    code_path,
)
from streammine.model.topology.problems import Path, wrong_value
from streammine.model.topology.stateless import OnError, OperatorBase


def _user_code(text: str) -> str:
    return text if text.startswith(BY_VALUE_PREFIX) else code_path(text)


class UserOperator(OperatorBase, KeyedFields, Windowed):
    """Code of the user's own: a Mapper, Reducer or Operator class."""

    label: ClassVar[str] = "an operator of your own"
    elsewhere: ClassVar[dict[str, str]] = {
        "on": "write key: [columns]",
    }
    kind: ClassVar[str] = "operator"
    may_broadcast: ClassVar[bool] = True

    input: StreamName | None = Field(
        default=None,
        description="Name of the source or operator whose rows come in.",
        examples=["readings"],
    )
    inputs: tuple[StreamName, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Names of several inputs, for an Operator with as many ports. One that gets its "
        "own rows from here makes a loop. Give this or input.",
        examples=[["readings", "limits"]],
    )
    operator: Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_user_code)] = Field(
        description="The class as module:Class; modules are found from the topology's folder. In "
        "Python also the class itself, or an instance of it.",
        examples=["my_operators:Threshold"],
    )
    with_: PlainSettings = Field(
        default_factory=dict,
        alias="with",
        max_length=MOST_ENTRIES,
        description="Keyword arguments for the class.",
        examples=[{"threshold": 3}],
    )
    key: Columns = Field(
        default=(),
        description="Column or columns of the key, for a Reducer or an Operator.",
        examples=["plug"],
    )
    combine: CombineField = None
    on_error: OnError = Field(
        default="fail",
        description="When the code raises: fail stops the job and names operator, epoch and event; "
        "dead_letter sets the row aside with the reason and goes on.",
    )

    @model_validator(mode="after")
    def _inputs_once(self) -> UserOperator:
        if (self.input is None) == (self.inputs is None):
            both = "has both input and inputs; keep one" if self.input else "has no input"
            raise wrong_value(f"{both}: input: NAME, or inputs: [NAME, NAME] for several ports")
        return self

    @property
    def input_names(self) -> tuple[str, ...]:
        return self.inputs if self.inputs is not None else (self.input or "",)

    def input_place(self, port: int) -> Path:
        return ("input",) if self.inputs is None else ("inputs", port)

    @property
    def sets_aside(self) -> bool:
        return self.on_error == "dead_letter"

    @property
    def key_columns(self) -> tuple[tuple[str, ...], ...]:
        return (self.key,) * len(self.input_names)

    @property
    def by_value(self) -> str | None:
        """The name of the code that travels beside the topology, if it is not found by path."""
        if not self.operator.startswith(BY_VALUE_PREFIX):
            return None
        return self.operator.removeprefix(BY_VALUE_PREFIX)
