"""Operators with state per key: order, positions, ports, epoch ends, failures."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.api import Operator
from streammine.operators.checking import check_operator
from streammine.operators.state import Queue, Value, Window
from streammine.operators.user.operator import UserOperator
from tests.unit.user_code_samples import READINGS, Steps, closing, readings


def ran(operator: UserOperator, epoch: int, *batches: pa.RecordBatch) -> pa.Table:
    schema = pa.schema([*operator.output, *(operator.hidden if operator.carries_order else ())])
    bag = ((0, batch) for batch in batches)
    return pa.Table.from_batches(operator.run(closing(epoch), bag), schema)


class TestOperator:
    def test_state_is_kept_per_key_from_epoch_to_epoch(self) -> None:
        operator = UserOperator("steps", Steps(), [READINGS], [["plug"]])
        table = ran(operator, 0, readings((1, 1.0), (2, 5.0)), readings((1, 4.0)))
        assert table.to_pydict() == {"plug": [1], "step": [3.0]}
        table = ran(operator, 1, readings((2, 6.0), (1, 0.0)))
        assert table.to_pydict() == {"plug": [2, 1], "step": [1.0, -4.0]}
        check_operator(Steps, [readings((1, 1.0), (2, 5.0)), readings((1, 4.0))], key="plug")

    def test_positions_are_those_of_the_events_and_those_of_epoch_ends_the_keys(self) -> None:
        class Echo(Operator):
            output: ClassVar[Any] = {"value": "float64"}

            def process(self, key: Any, event: Any, state: Any) -> Any:
                return [event.value] * key

            def end_epoch(self, key: Any, state: Any) -> Any:
                return float(key)

        hidden = [pa.field("__time", pa.int64()), pa.field("__row", pa.int64())]
        operator = UserOperator(
            "echo", Echo(), [READINGS], [["plug"]], [hidden], carries_order=True
        )
        rows = readings((2, 0.5), (1, 0.25))
        batch = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array([70, 80]), pa.array([4, 5])],
            schema=pa.schema([*READINGS, *hidden]),
        )
        table = ran(operator, 0, batch)
        assert operator.output_order == (
            "__time", "__closing0", "__row", "__key0_plug", "__index0",
        )  # fmt: skip
        assert table.to_pydict() == {
            "value": [0.5, 0.5, 0.25, 1.0, 2.0],
            "__time": [70, 70, 80, 59_999_999, 59_999_999],
            "__closing0": [0, 0, 0, 2, 2],
            "__row": [4, 4, 5, None, None],
            "__key0_plug": [None, None, None, 1, 2],
            "__index0": [0, 1, 0, 0, 0],
        }

    def test_several_inputs_have_methods_of_their_own(self) -> None:
        class Match(Operator):
            output: ClassVar[Any] = {"text": "string"}
            ports: ClassVar[Any] = ("prices", "names")
            state: ClassVar[Any] = {"name": Value("?")}

            def process_prices(self, key: Any, event: Any, state: Any) -> Any:
                return f"{state.name} {event.value}"

            def process_names(self, key: Any, event: Any, state: Any) -> None:
                state.name = event.name

        names = pa.schema([("id", pa.int64()), ("name", pa.string())])
        operator = UserOperator("match", Match(), [READINGS, names], [["plug"], ["id"]])
        name = pa.record_batch([[1], ["one"]], schema=names)
        bag = [(0, readings((1, 1.0))), (1, name), (0, readings((1, 2.0)))]
        (first, second) = operator.run(closing(0), iter(bag))
        assert [*first.column(0).to_pylist(), *second.column(0).to_pylist()] == ["? 1.0", "one 2.0"]
        with pytest.raises(TopologyError, match="1 inputs, but its ports are prices, names"):
            UserOperator("match", Match(), [READINGS], [["plug"]])
        with pytest.raises(TopologyError, match="name them, ports"):
            UserOperator("steps", Steps(), [READINGS, names], [["plug"], ["id"]])

    def test_a_batch_operator_sees_an_epochs_rows_of_a_key_at_once(self) -> None:
        class Totals(Operator):
            output: ClassVar[Any] = {"total": "float64"}
            state: ClassVar[Any] = {"total": Value(0.0)}

            def process_batch(self, key: Any, batch: pa.RecordBatch, state: Any) -> Any:
                sums = state.total + np.cumsum(batch.column("value").to_numpy())
                state.total = float(sums[-1])
                return pa.record_batch([sums], names=["total"])

        epochs = [readings((1, 1.0), (2, 5.0), (1, 4.0)), readings((1, 1.0))]
        check_operator(Totals, epochs, key="plug")
        operator = UserOperator("totals", Totals(), [READINGS], [["plug"]])
        assert ran(operator, 0, epochs[0]).column(0).to_pylist() == [1.0, 5.0, 5.0]
        assert ran(operator, 1, epochs[1]).column(0).to_pylist() == [6.0]

    def test_a_commutative_operator_leaves_in_the_order_of_its_columns(self) -> None:
        class Seen(Operator):
            output: ClassVar[Any] = {"plug": "int64", "value": "float64"}
            commutative: ClassVar[bool] = True

            def process(self, key: Any, event: Any, state: Any) -> Any:
                return event

        rows = readings((2, 1.0), (1, 3.0), (1, 2.0), (1, 2.0))
        check_operator(Seen, [rows], key="plug")
        operator = UserOperator("seen", Seen(), [READINGS], [["plug"]])
        assert operator.output_order == ("plug", "value")
        assert ran(operator, 0, rows).column("value").to_pylist() == [2.0, 2.0, 3.0, 1.0]

    def test_epoch_ends_come_for_touched_or_all_keys_and_input_end_for_all(self) -> None:
        class Ends(Operator):
            output: ClassVar[Any] = {"what": "string"}
            state: ClassVar[Any] = {"values": Queue(3)}

            def process(self, key: Any, event: Any, state: Any) -> None:
                state.values.append(event.value)

            def end_epoch(self, key: Any, state: Any) -> Any:
                return f"{self.context.epoch} {self.context.window[0]} {key} {len(state.values)}"

            def end_input(self, key: Any, state: Any) -> Any:
                return f"end {key}"

        operator = UserOperator("ends", Ends(), [READINGS], [["plug"]])
        ran(operator, 0, readings((2, 1.0), (1, 1.0)))
        table = ran(operator, 1, readings((2, 1.0)))
        assert table.column(0).to_pylist() == ["1 60000000 2 2"]
        (flushed,) = operator.flush(closing(1))
        assert flushed.column(0).to_pylist() == ["end 1", "end 2"]
        Every = type("Every", (Ends,), {"every_key": True})  # noqa: N806
        operator = UserOperator("ends", Every(), [READINGS], [["plug"]])
        ran(operator, 0, readings((1, 1.0)))
        table = ran(operator, 1, readings((2, 1.0)))
        assert table.column(0).to_pylist() == ["1 60000000 1 1", "1 60000000 2 1"]

    def test_every_key_includes_those_whose_events_leave_nothing_behind(self) -> None:
        class Ends(Operator):
            output: ClassVar[Any] = {"what": "string"}
            state: ClassVar[Any] = {"total": Value(0.0), "late": Window(epochs=1)}
            every_key: ClassVar[bool] = True

            def process(self, key: Any, event: Any, state: Any) -> None:
                state.total += event.value

            def end_epoch(self, key: Any, state: Any) -> Any:
                return f"{key} {state.total}"

        operator = UserOperator("ends", Ends(), [READINGS], [["plug"]])
        table = ran(operator, 0, readings((1, 0.0), (2, 1.0)))
        assert table.column(0).to_pylist() == ["1 0.0", "2 1.0"]
        assert ran(operator, 1, readings((2, 1.0))).column(0).to_pylist() == ["2 2.0"]

    def test_a_lazy_result_is_run_before_the_next_event(self) -> None:
        class Lazy(Operator):
            output: ClassVar[Any] = {"count": "int64"}
            state: ClassVar[Any] = {"count": Value(0)}

            def process(self, key: Any, event: Any, state: Any) -> Any:
                state.count += 1
                return (state.count for _ in range(1))

        operator = UserOperator("lazy", Lazy(), [READINGS], [[]])
        assert ran(operator, 0, readings((1, 1.0), (2, 1.0))).column(0).to_pylist() == [1, 2]

    def test_failed_events_become_dead_letters_and_the_others_go_on(self) -> None:
        class Picky(Steps):
            def process(self, key: Any, event: Any, state: Any) -> Any:
                if event.value == 7.0:
                    return "seven"
                return (key, 1 / event.value)

        rows = readings((1, 1.0), (1, 0.0), (1, 7.0), (2, 2.0), (1, 0.0))
        operator = UserOperator("picky", Picky(), [READINGS], [["plug"]], dead_letter=True)
        assert ran(operator, 0, rows).column("step").to_pylist() == [1.0, 0.5]
        dead = operator.take_dead()
        assert dead is not None
        assert sorted(dead.rows) == ["plug=1, value=0.0"] * 2 + ["plug=1, value=7.0"]
        failing = UserOperator("picky", Picky(), [READINGS], [["plug"]])
        with pytest.raises(UserCodeError, match=r"(?s)epoch 5: Picky.process raised.*value=0.0"):
            ran(failing, 5, rows)
