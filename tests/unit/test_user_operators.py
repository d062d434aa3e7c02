"""Mappers and Reducers: what they get, what they may return, and what they are told."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from streammine.model.contracts import StatefulOperator
from streammine.model.errors import TopologyError, UserCodeError
from streammine.operators.api import Mapper, Reducer
from streammine.operators.checking import check_operator
from streammine.operators.rows import OutputTooLargeError, RowWriter
from streammine.operators.user.mapper import UserMapper
from streammine.operators.user.reducer import UserReducer
from tests.unit.user_code_samples import LINES, READINGS, Count, Words, closing, lines, readings


def mapper(result: Any, output: Any = None, dead_letter: bool = False) -> UserMapper:
    """A Mapper of one column (unless `output` says more) whose map is `result` of the event."""

    class Given(Mapper):
        def map(self, event: Any) -> Any:
            return result(event)

    Given.output = output or {"word": "string"}
    return UserMapper("given", Given(), LINES, dead_letter)


class FailsAtOnce(Mapper):
    """Fails on empty lines."""

    output: ClassVar = {"n": "int64"}

    def map_batch(self, batch: pa.RecordBatch) -> Any:
        return pa.record_batch({"n": [1 // len(line) for line in batch.column(0).to_pylist()]})


class TestMapper:
    @pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
    def test_views_are_no_types_of_columns(self, kind: pa.DataType) -> None:
        with pytest.raises(TopologyError, match=r"'word' has type .*; declare it (string|binary),"):
            mapper(None, pa.schema([("word", kind)]))

    def test_rows_know_the_event_they_came_from(self) -> None:
        derived = UserMapper("words", Words(), LINES).apply(lines("a b", "", "c"))
        assert derived.batch.to_pydict() == {"word": ["a", "b", "c"]}
        assert derived.parents is not None
        assert derived.parents.tolist() == [0, 0, 2]

    @pytest.mark.parametrize(
        "result",
        [
            lambda event: (event.line, 1),
            lambda event: {"n": 1, "word": event.line},
            lambda event: [(event.line, 1)],
            lambda event: ((word, 1) for word in [event.line]),
            lambda event: iter([{"word": event.line, "n": 1}]),
        ],
    )
    def test_a_row_may_be_a_tuple_or_dict_alone_or_in_any_iterable(self, result: Any) -> None:
        derived = mapper(result, {"word": "string", "n": "int64"}).apply(lines("x", "y"))
        assert derived.batch.to_pydict() == {"word": ["x", "y"], "n": [1, 1]}

    def test_one_row_per_event_needs_no_parents(self) -> None:
        assert mapper(lambda event: event.line).apply(lines("x", "y")).parents is None

    def test_results_of_different_forms_mix(self) -> None:
        forms = {"none": None, "one": "1", "many": ["2", ("3",)], "null": (None,)}
        derived = mapper(lambda event: forms[event.line]).apply(lines(*forms))
        assert derived.batch.column(0).to_pylist() == ["1", "2", "3", None]
        assert derived.parents is not None
        assert derived.parents.tolist() == [1, 2, 2, 3]

    def test_more_rows_than_a_piece_keep_their_parents(self) -> None:
        texts = [str(number) for number in range(3000)]
        derived = mapper(lambda event: [event.line] * (int(event.line) % 3)).apply(lines(*texts))
        expected = [number for number in range(3000) for _ in range(number % 3)]
        assert derived.parents is not None
        assert derived.parents.tolist() == expected
        assert derived.batch.column(0).to_pylist() == [str(number) for number in expected]

    def test_an_empty_batch_gives_an_empty_batch_of_the_output(self) -> None:
        assert UserMapper("words", Words(), LINES).apply(lines()).batch.schema.names == ["word"]

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (lambda event: (event.line,), r"made the row \('x',\) \(tuple\) of 1 values"),
            (lambda event: event.line, "a row is a tuple, and expected is .word: string, n: int64"),
            (lambda event: ("x", "one"), "value 'one' .str. for column 'n', which is int64"),
            (lambda event: {"word": "x"}, "made a row with the columns word; expected"),
            (lambda event: {1, 2}, "a set has no order"),
        ],
    )
    def test_a_wrong_row_is_an_error_that_says_what_is_right(
        self, result: Any, message: str
    ) -> None:
        with pytest.raises(UserCodeError, match=message) as caught:
            mapper(result, {"word": "string", "n": "int64"}).apply(lines("x"))
        assert "operator 'given'" in str(caught.value)
        assert "line='x'" in str(caught.value)

    def test_an_exception_names_operator_slice_event_and_place(self) -> None:
        failing = mapper(lambda event: str(1 // len(event.line)))
        failing.context.slice_index, failing.context.epoch = 3, 17
        with pytest.raises(UserCodeError) as caught:
            failing.apply(lines("x", ""))
        text = str(caught.value)
        assert text.startswith("operator 'given', slice 3, epoch 17: Given.map raised ZeroDivision")
        assert "event: line=''" in text
        assert "test_user_operators.py" in text
        assert "mapper.py" not in text

    def test_failed_events_become_dead_letters_and_the_others_go_on(self) -> None:
        def result(event: Any) -> Any:
            return 1 if event.line == "wrong" else str(10 // len(event.line))

        derived = mapper(result, dead_letter=True).apply(lines("x", "", "wrong", "yy"))
        assert derived.batch.column(0).to_pylist() == ["10", "5"]
        assert derived.parents is not None
        assert derived.parents.tolist() == [0, 3]
        assert derived.dead is not None
        assert derived.dead.rows == ("line=''", "line='wrong'")
        assert "ZeroDivisionError" in derived.dead.reasons[0]
        assert "which is string" in derived.dead.reasons[1]

    def test_a_call_that_fails_as_a_whole_leaves_no_dead_letters_to_the_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing = mapper(lambda event: str(1 // len(event.line)), dead_letter=True)
        with monkeypatch.context() as patch:
            write = Mock(side_effect=OutputTooLargeError("too much"))
            patch.setattr(RowWriter, "write", write)
            with pytest.raises(UserCodeError, match="too much"):
                failing.apply(lines("x", ""))
        assert failing.apply(lines("x")).dead is None

    def test_who_asks_for_the_epoch_is_noticed_and_messages_do_not_ask(self) -> None:
        silent = UserMapper("at once", FailsAtOnce(), LINES, dead_letter=True)
        asking = mapper(lambda event: asking.context.epoch, {"n": "int64"})
        for each, asked in ((silent, False), (asking, True)):
            each.locate(3, 17)
            each.apply(lines("x", ""))
            assert each.asked_for_epoch is asked
            each.locate(3, 18)
            assert not each.asked_for_epoch
        assert asking.apply(lines("x")).batch.column(0).to_pylist() == [18]

    def test_a_failing_generator_fails_for_its_own_event(self) -> None:
        def result(event: Any) -> Any:
            yield event.line
            yield str(1 // len(event.line))

        derived = mapper(result, dead_letter=True).apply(lines("", "x"))
        assert derived.batch.column(0).to_pylist() == ["x", "1"]

    def test_a_stop_iteration_does_not_swallow_the_rest(self) -> None:
        with pytest.raises(UserCodeError, match="StopIteration"):
            mapper(lambda event: next(iter(()))).apply(lines("x", "y"))

    def test_a_batch_mapper_gets_batches_and_its_failing_rows_are_found(self) -> None:
        class Long(Mapper):
            output: ClassVar[Any] = {"line": "string"}

            def map_batch(self, batch: pa.RecordBatch) -> Any:
                kept = np.array([len(text) > 1 for text in batch.column(0).to_pylist()])
                rows = np.flatnonzero(kept)
                return batch.take(pa.array(rows)), rows

        check_operator(Long, [lines("aa", "b", "cc")])
        derived = UserMapper("long", Long(), LINES, True).apply(lines("aa", None, "b", "cc"))
        assert derived.batch.column(0).to_pylist() == ["aa", "cc"]
        assert derived.parents is not None
        assert derived.parents.tolist() == [0, 3]
        assert derived.dead is not None
        assert derived.dead.rows == ("line=None",)

    def test_a_batch_of_other_length_without_parents_is_refused(self) -> None:
        class Less(Mapper):
            output: ClassVar[Any] = {"line": "string"}

            def map_batch(self, batch: pa.RecordBatch) -> Any:
                return batch.slice(1)

        with pytest.raises(UserCodeError, match="parents"):
            UserMapper("less", Less(), LINES).apply(lines("a", "b"))

    def test_timestamps_are_integers_and_nulls_are_none(self) -> None:
        schema = pa.schema([("at", pa.timestamp("ms")), ("day", pa.date32()), ("ok", pa.bool_())])

        class Copy(Mapper):
            output: ClassVar[Any] = schema
            seen: ClassVar[list[Any]] = []

            def map(self, event: Any) -> Any:
                self.seen.append(tuple(event))
                return event

        batch = pa.record_batch([[5, None], [2, None], [True, None]], schema=schema)
        assert UserMapper("copy", Copy(), schema).apply(batch).batch.equals(batch)
        assert Copy.seen == [(5, 2, True), (None, None, None)]

    def test_a_needed_column_that_is_missing_is_refused_beforehand(self) -> None:
        class Needy(Words):
            needs: ClassVar[Any] = ("lnie",)

        with pytest.raises(TopologyError, match="did you mean 'line'"):
            UserMapper("needy", Needy(), LINES)

    def test_a_mapper_without_map_is_refused(self) -> None:
        with pytest.raises(TopologyError, match="either map or map_batch"):
            UserMapper("empty", Mapper(), LINES)


def reduced(reducer: UserReducer, epoch: int, *batches: pa.RecordBatch) -> pa.Table:
    accumulator = reducer.accumulator(0)
    for batch in batches:
        accumulator.add(batch)
    return pa.Table.from_batches(list(reducer.close(closing(epoch), [accumulator])), reducer.output)


class TestReducer:
    def test_output_is_epoch_key_and_finish_in_canonical_key_order(self) -> None:
        reducer = UserReducer("count", Count(), READINGS, ["value"])
        assert isinstance(reducer, StatefulOperator)
        nan = float("nan")
        table = reduced(
            reducer, 7, readings((1, nan), (1, None), (1, 0.0), (1, -0.0), (1, -1.0), (1, nan))
        )
        assert table.schema.names == ["epoch", "value", "count"]
        assert str(table.column("value").to_pylist()) == "[-1.0, 0.0, nan, None]"
        assert table.column("count").to_pylist() == [1, 2, 2, 1]
        assert table.column("epoch").to_pylist() == [7] * 4

    def test_it_keeps_its_promise_however_events_arrive(self) -> None:
        words = pa.record_batch([pa.array(["b", "a", None, "a", "c", "a"] * 50)], names=["word"])
        check_operator(Count, [words, words.slice(100)], key="word")
        check_operator(Count, [words])

    def test_the_check_finds_a_float_sum_that_depends_on_the_order(self) -> None:
        class Sum(Count):
            output: ClassVar[Any] = {"total": "float64"}

            def add(self, accumulator: Any, event: Any) -> Any:
                return accumulator + event.value

        rows = readings(*((1, number / 10) for number in range(100)))
        with pytest.raises(
            AssertionError, match=r"Sum: epoch 0 gives something else with .*\n.*row 0"
        ):
            check_operator(Sum, [rows], key="plug")

    def test_accumulators_of_any_type_travel_with_serialize(self) -> None:
        class Exact(Count):
            output: ClassVar[Any] = {"total": "float64"}

            def add(self, accumulator: Any, event: Any) -> Any:
                return accumulator + Fraction(event.value)

            def finish(self, key: Any, accumulator: Any) -> Any:
                return float(accumulator)

            def serialize(self, accumulator: Any) -> bytes:
                return str(accumulator).encode()

            def deserialize(self, data: bytes) -> Any:
                return Fraction(data.decode())

        rows = readings(*((number % 3, number / 10) for number in range(100)))
        check_operator(Exact, [rows], key="plug")

    def test_an_accumulator_that_is_not_plain_data_asks_for_serialize(self) -> None:
        class Odd(Count):
            def add(self, accumulator: Any, event: Any) -> Any:
                return Fraction(1, 2)

        combiner = UserReducer("odd", Odd(), READINGS, ["plug"]).combiner()
        combiner.add(readings((4, 1.0)))
        with pytest.raises(UserCodeError, match=r"(?s)serialize is missing.*Fraction.*key: 4"):
            combiner.partials()

    def test_several_rows_of_a_key_keep_the_order_of_finish(self) -> None:
        class Top(Reducer):
            output: ClassVar[Any] = {"rank": "int64", "top": "float64"}

            def create(self) -> Any:
                return []

            def add(self, accumulator: Any, event: Any) -> Any:
                accumulator.append(event.value)
                return accumulator

            def merge(self, left: Any, right: Any) -> Any:
                return left + right

            def finish(self, key: Any, accumulator: Any) -> Any:
                yield from enumerate(sorted(accumulator, reverse=True)[:2])

        rows = readings((2, 1.0), (1, 5.0), (2, 3.0), (2, 2.0))
        check_operator(Top, [rows], key="plug")
        table = reduced(UserReducer("top", Top(), READINGS, ["plug"]), 0, rows)
        assert table.column("plug").to_pylist() == [1, 2, 2]
        assert table.column("top").to_pylist() == [5.0, 3.0, 2.0]

    def test_a_reducer_that_is_not_commutative_gets_the_events_in_order(self) -> None:
        class Last(Count):
            output: ClassVar[Any] = {"last": "float64"}
            commutative: ClassVar[bool] = False

            def add(self, accumulator: Any, event: Any) -> Any:
                return event.value

        reducer = UserReducer("last", Last(), READINGS, ["plug"])
        assert not reducer.traits.commutative
        assert not reducer.traits.combinable
        assert reducer.partial_schema is None
        table = reduced(reducer, 0, readings((1, 1.0), (2, 2.0)), readings((1, 3.0)))
        assert table.column("last").to_pylist() == [3.0, 2.0]
        check_operator(Last, [readings((1, 1.0), (2, 2.0), (1, 3.0))], key="plug")

    def test_a_batch_reducer_gets_the_rows_of_one_key(self) -> None:
        class Largest(Reducer):
            output: ClassVar[Any] = {"largest": "float64"}
            needs: ClassVar[Any] = ("value",)

            def create(self) -> Any:
                return -1.0

            def add_batch(self, accumulator: Any, batch: pa.RecordBatch) -> Any:
                assert batch.schema.names == ["value"]
                return max(accumulator, *batch.column(0).to_pylist())

            def merge(self, left: Any, right: Any) -> Any:
                return max(left, right)

            def finish(self, key: Any, accumulator: Any) -> Any:
                return accumulator

        check_operator(Largest, [readings((1, 1.0), (2, 2.0), (1, 3.0))], key="plug")
        with pytest.raises(TopologyError, match="write add"):
            UserReducer("largest", Largest(), READINGS, ["plug"], dead_letter=True)

    def test_an_order_sensitive_batch_reducer_gets_an_epoch_whole(self) -> None:
        class Total(Reducer):
            commutative = False
            output: ClassVar[Any] = {"total": "float64"}

            def create(self) -> Any:
                return 0.0

            def add_batch(self, accumulator: Any, batch: pa.RecordBatch) -> Any:
                return accumulator + sum(batch.column("value").to_pylist())

            def finish(self, key: Any, accumulator: Any) -> Any:
                return accumulator

        values = [(1, 0.1), (1, 0.2), (1, 0.3), (2, 1e16), (1, 0.4), (2, 1.0)]
        totals = {
            tuple(
                reduced(
                    UserReducer("total", Total(), READINGS, ["plug"]),
                    0,
                    *(readings(*part) for part in (values[:cut], values[cut:]) if part),
                )
                .column("total")
                .to_pylist()
            )
            for cut in range(len(values))
        }
        assert totals == {(sum([0.1, 0.2, 0.3, 0.4]), 1e16 + 1.0)}

    def test_a_window_of_several_epochs_leaves_with_its_last_and_over_gaps(self) -> None:
        reducer = UserReducer("count", Count(), READINGS, ["plug"], window_epochs=3)
        assert reduced(reducer, 0, readings((1, 1.0))).num_rows == 0
        assert reduced(reducer, 2, readings((1, 1.0))).to_pydict() == {
            "epoch": [2],
            "plug": [1],
            "count": [2],
        }
        reduced(reducer, 3, readings((5, 1.0)))
        assert reducer.due_epoch == 5
        late = reduced(reducer, 5)
        assert late.to_pydict() == {"epoch": [5], "plug": [5], "count": [1]}
        assert reducer.due_epoch is None

    def test_failed_events_become_dead_letters_and_open_no_key(self) -> None:
        class Strict(Count):
            def add(self, accumulator: Any, event: Any) -> Any:
                return accumulator + int(event.value)

        reducer = UserReducer("strict", Strict(), READINGS, ["plug"], dead_letter=True)
        first, second = readings((1, None), (2, None), (2, 5.0)), readings((3, None), (3, 1.0))
        table = reduced(reducer, 0, first, second, readings((4, None)))
        assert table.column("plug").to_pylist() == [2, 3]
        dead = reducer.take_dead()
        assert dead is not None
        assert len(dead) == 4
        assert dead.rows[0] == "plug=1, value=None"
        assert reducer.take_dead() is None
        combiner = reducer.combiner()
        combiner.add(first)
        assert combiner.partials().column("plug").to_pylist() == [2]
        assert len(combiner.take_dead()) == 2

    def test_an_add_that_returns_nothing_is_explained(self) -> None:
        class Forgets(Count):
            def add(self, accumulator: Any, event: Any) -> Any:
                accumulator += 1

        with pytest.raises(UserCodeError, match="add and merge must return it"):
            reduced(UserReducer("f", Forgets(), READINGS, ["plug"]), 0, readings((1, 1), (1, 1)))

    def test_an_error_in_finish_names_key_and_epoch(self) -> None:
        class Fails(Count):
            def finish(self, key: Any, accumulator: Any) -> Any:
                return {}[key]

        with pytest.raises(
            UserCodeError, match=r"(?s)epoch 4: Fails.finish raised KeyError.*key: 9"
        ):
            reduced(UserReducer("fails", Fails(), READINGS, ["plug"]), 4, readings((9, 1.0)))

    def test_a_key_or_column_that_does_not_fit_is_refused(self) -> None:
        with pytest.raises(TopologyError, match="did you mean 'plug'"):
            UserReducer("count", Count(), READINGS, ["plgu"])
        Other = type("Other", (Count,), {"output": {"plug": "int64"}})  # noqa: N806
        with pytest.raises(TopologyError, match="'plug' would leave twice"):
            UserReducer("count", Other(), READINGS, ["plug"])
