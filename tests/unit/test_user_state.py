"""Snapshots of user code: versions, migration, structures of its own, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest

from streammine.model.contracts import EpochClose, KeepsState
from streammine.model.epochs import EpochDefinition
from streammine.model.errors import StateVersionError, TopologyError, UserCodeError
from streammine.operators.api import Operator
from streammine.operators.checking import check_operator
from streammine.operators.plain_data import decode, encode
from streammine.operators.state import List, Queue, Value, Window
from streammine.operators.user.adapting import adapted
from streammine.operators.user.operator import UserOperator
from streammine.operators.user.reducer import UserReducer
from tests.unit.user_code_samples import READINGS, Count, Steps, Words, closing, lines, readings


class Kept(Operator):
    output: ClassVar[Any] = {"text": "string"}
    state: ClassVar[Any] = {"last": Queue(2)}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.last.append(event.value)
        return f"{key} {list(state.last)}"


class KeptLonger(Kept):
    state: ClassVar[Any] = {"values": List(), "count": Value(0)}
    state_version: ClassVar[int] = 2

    def process(self, key: Any, event: Any, state: Any) -> Any:
        state.values.append(event.value)
        state.count += 1
        return f"{key} {state.values} {state.count}"


class Migrating(KeptLonger):
    def migrate(self, state: Any, version: int) -> Any:
        return {"values": state["last"], "count": 100 * version}


class Sketch(Operator):
    """Keeps a structure of its own."""

    output: ClassVar[Any] = {"total": "float64"}

    def __init__(self) -> None:
        self.total = 0.0

    def process(self, key: Any, event: Any, state: Any) -> Any:
        self.total += event.value
        return self.total

    def serialize(self) -> bytes:
        return encode(self.total)

    def deserialize(self, data: bytes, version: int) -> None:
        self.total = decode(data)


class Plain(Operator):
    """Keeps nothing."""

    output: ClassVar[Any] = {"total": "float64"}

    def process(self, key: Any, event: Any, state: Any) -> Any:
        return None


def operator(code: Operator) -> UserOperator:
    return UserOperator("kept", code, [READINGS], [["plug"]])


def run(one: UserOperator, epoch: int, *rows: tuple[int, float]) -> list[Any]:
    batches = one.run(closing(epoch), iter([(0, readings(*rows))]))
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def snapshot(one: Any) -> tuple[int, list[pa.Buffer]]:
    return one.state_version, list(one.freeze(True).pieces())


def restored(code: Operator, saved: tuple[int, list[pa.Buffer]]) -> UserOperator:
    one = operator(code)
    one.restore(saved[0], True, iter(saved[1]))
    return one


@pytest.fixture
def saved() -> tuple[int, list[pa.Buffer]]:
    one = operator(Kept())
    run(one, 0, (1, 1.0), (1, 2.0), (2, 5.0))
    return snapshot(one)


def test_a_snapshot_of_another_version_is_refused_with_a_hint(saved: Any) -> None:
    with pytest.raises(
        StateVersionError,
        match=r"operator 'kept' \(KeptLonger\): the snapshot holds state of version 1, the class "
        r"has state_version 2; write migrate\(state, version\)",
    ):
        restored(KeptLonger(), saved)


def test_migrate_gets_each_keys_state_and_the_version_it_has(saved: Any) -> None:
    one = restored(Migrating(), saved)
    assert run(one, 1, (1, 3.0), (2, 6.0)) == ["1 [1.0, 2.0, 3.0] 101", "2 [5.0, 6.0] 101"]


def test_what_migrate_gets_wrong_is_told(saved: Any) -> None:
    class Forgetful(Migrating):
        def migrate(self, state: Any, version: int) -> Any:
            return {"values": []}

    class Failing(Migrating):
        def migrate(self, state: Any, version: int) -> Any:
            raise ZeroDivisionError

    class Strict(Migrating):
        def migrate(self, state: Any, version: int) -> Any:
            raise StateVersionError("too old")

    with pytest.raises(UserCodeError, match=r"Forgetful.migrate returned what .* KeyError.*count"):
        restored(Forgetful(), saved)
    with pytest.raises(UserCodeError, match=r"(?s)Failing.migrate raised Zero.*version 1: {'last'"):
        restored(Failing(), saved)
    with pytest.raises(StateVersionError, match="too old"):
        restored(Strict(), saved)


def test_other_cells_under_the_same_version_are_refused(saved: Any) -> None:
    class Careless(KeptLonger):
        state_version: ClassVar[int] = 1

    with pytest.raises(
        StateVersionError, match=r"holds the cells last, .* declares the cells values, count"
    ):
        restored(Careless(), saved)


def test_own_structures_are_saved_and_restored_and_migrated() -> None:
    one = operator(Sketch())
    run(one, 0, (1, 1.0), (2, 2.0))
    saved = snapshot(one)
    run(one, 1, (1, 50.0))
    assert run(restored(Sketch(), saved), 1, (1, 4.0)) == [7.0]

    class Newer(Sketch):
        state_version: ClassVar[int] = 3

        def migrate(self, state: Any, version: int) -> Any:
            return encode(decode(state) * 10 + version)

    assert run(restored(Newer(), saved), 1, (1, 4.0)) == [35.0]
    check_operator(Sketch, [readings((1, 1.0), (2, 2.0))] * 4, key="plug")


def test_what_serialize_gets_wrong_is_told_and_both_methods_are_wanted(saved: Any) -> None:
    class Texts(Sketch):
        def serialize(self) -> Any:
            return "text"

    class Half(Plain):
        def serialize(self) -> bytes:
            return b""

    class Damaged(Sketch):
        def deserialize(self, data: bytes, version: int) -> None:
            raise ValueError("bad")

    with pytest.raises(UserCodeError, match=r"Texts.serialize returned str; right is bytes"):
        operator(Texts()).freeze(True)
    with pytest.raises(TopologyError, match="serialize and deserialize belong together"):
        operator(Half())
    own = snapshot(operator(Sketch()))
    with pytest.raises(UserCodeError, match=r"Damaged.deserialize raised ValueError: bad"):
        restored(Damaged(), own)
    with pytest.raises(StateVersionError, match="holds what serialize wrote"):
        restored(Steps(), own)
    with pytest.raises(StateVersionError, match="made without serialize"):
        restored(Sketch(), snapshot(operator(Plain())))


def test_state_that_can_not_be_saved_names_operator_and_type() -> None:
    class Odd(Kept):
        def process(self, key: Any, event: Any, state: Any) -> Any:
            state.last.append(object())

    one = operator(Odd())
    run(one, 0, (1, 1.0))
    with pytest.raises(
        UserCodeError, match=r"'kept' \(Odd\): state can't be saved: .*object is not"
    ):
        snapshot(one)


def test_a_reducers_windows_have_a_version_too() -> None:
    def reducer(code: Any) -> UserReducer:
        return UserReducer("count", code, READINGS, ["plug"], window_epochs=3)

    def epoch(one: UserReducer, number: int) -> list[Any]:
        accumulator = one.accumulator(0)
        accumulator.add(readings((1, 1.0), (1, 2.0)))
        return [
            row for batch in one.close(closing(number), [accumulator]) for row in batch.to_pylist()
        ]

    class Newer(Count):
        state_version: ClassVar[int] = 2

    class NewerStill(Newer):
        def migrate(self, state: Any, version: int) -> Any:
            return state + 1000

    one = reducer(Count())
    epoch(one, 0)
    saved = snapshot(one)
    with pytest.raises(StateVersionError, match=r"Newer.*version 1, the class has state_version 2"):
        reducer(Newer()).restore(saved[0], True, iter(saved[1]))
    again = reducer(NewerStill())
    again.restore(saved[0], True, iter(saved[1]))
    assert again.due_epoch == 2
    assert epoch(again, 2) == [{"epoch": 2, "plug": 1, "count": 1004}]


def test_windows_of_event_time_need_epochs_of_time() -> None:
    class Late(Kept):
        state: ClassVar[Any] = {"last": Window(microseconds=5)}

    one = operator(Late())
    with pytest.raises(TopologyError, match=r"Window\(microseconds=5.*use Window\(epochs=...\)"):
        one.run(EpochClose(0, 0, EpochDefinition("count", 10)), iter([]))


def test_only_operators_with_state_keep_any() -> None:
    assert isinstance(operator(Kept()), KeepsState)
    assert not isinstance(adapted("words", Words(), [lines("a").schema]), KeepsState)


class Forgets(Kept):
    """Remembers in an attribute that no snapshot holds."""

    def __init__(self) -> None:
        self.count = 0

    def process(self, key: Any, event: Any, state: Any) -> Any:
        self.count += 1
        return str(self.count)


def test_the_harness_finds_state_that_a_restore_loses() -> None:
    with pytest.raises(AssertionError, match=r"Forgets: epoch .* lost and restored from snapshots"):
        check_operator(Forgets, [readings((1, 1.0), (2, 2.0))] * 6, key="plug")


def test_the_harness_restores_reducers_and_aggregates_with_windows() -> None:
    class Leaking(Count):
        """Counts what it merged in an attribute that no snapshot holds."""

        def __init__(self) -> None:
            self.added = 0

        def add(self, accumulator: Any, event: Any) -> Any:
            self.added += 1
            return accumulator + 1

        def finish(self, key: Any, accumulator: Any) -> Any:
            return self.added

    rows = [readings((1, 1.0), (2, 2.0))] * 7
    check_operator(lambda: adapted("c", Count(), [READINGS], [["plug"]], window_epochs=3), rows)
    with pytest.raises(AssertionError, match="lost and restored"):
        check_operator(
            lambda: adapted("c", Leaking(), [READINGS], [["plug"]], window_epochs=3), rows
        )
