"""Partitioners: stable, total, and clear about what can't work."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from partitioners import Hash, KeyRange, partitioner_named
from partitioners.hashing import key_hashes
from streammine.model.contracts import Partitioner
from streammine.model.errors import TopologyError, UserCodeError

GOLDEN = [
    (pa.array([5], pa.int32()), 0x9899C471311432C4),
    (pa.array([5], pa.int64()), 0x9899C471311432C4),
    (pa.array([-1], pa.int8()), 0x4E68389F0748AA13),
    (pa.array([2**64 - 1], pa.uint64()), 0x4E68389F0748AA13),
    (pa.array([True]), 0xEDCC99D7F7403620),
    (pa.array([0.0]), 0x2CB0F69F4ABEA221),
    (pa.array([-0.0], pa.float32()), 0x2CB0F69F4ABEA221),
    (pa.array([float("nan")]), 0xDCB06FAC59874392),
    (pa.array(["wort"]), 0x32AA864DC7CB2B48),
    (pa.array(["wort"], pa.large_string()), 0x32AA864DC7CB2B48),
    (pa.array(["wort"], pa.string_view()), 0x32AA864DC7CB2B48),
    (pa.array([b"wort"], pa.binary(4)), 0x32AA864DC7CB2B48),
    (pa.array(["wort"]).dictionary_encode(), 0x32AA864DC7CB2B48),
    (pa.array(["größer als acht"]), 0x937BFFD16978A658),
    (pa.array([None], pa.string()), 0xE89D6A373A7329CB),
    (pa.array([None], pa.int8()), 0xE89D6A373A7329CB),
    (pa.nulls(1), 0xE89D6A373A7329CB),
    (pa.array([1], pa.timestamp("s")), 0xD1224205C7446C4E),
    (pa.array([1_000_000], pa.timestamp("us", "UTC")), 0xD1224205C7446C4E),
    (pa.array([1], pa.date32()), 0xF8D7BC577D64025D),
    (pa.array([Decimal("1.00")], pa.decimal128(5, 2)), 0x7AE5A4D1DA7E2E7A),
    (pa.array([Decimal("1.00")], pa.decimal256(50, 2)), 0x7AE5A4D1DA7E2E7A),
]


@pytest.mark.parametrize(("column", "expected"), GOLDEN)
def test_hash_of_a_value_never_changes(column: pa.Array, expected: int) -> None:
    assert int(key_hashes([column])[0]) == expected


def test_hash_of_several_columns_never_changes() -> None:
    assert int(key_hashes([pa.array([7]), pa.array(["x"])])[0]) == 0x5F7BAD5FAAADBFB9


def test_slices_never_change() -> None:
    words = pa.array(["the", "of", "and", "in", "to", "was", None, ""])
    assert Hash().targets([words], 4).tolist() == [0, 0, 0, 2, 2, 0, 3, 0]


def test_hash_reads_a_slice_of_a_column_as_the_values_it_shows() -> None:
    for column in (
        pa.array([1, 2, None, 4]),
        pa.array(["a", "bb", None, "dddddddddd"]),
        pa.array([True, False, None, True]),
        pa.array([Decimal(1), Decimal(2), None, Decimal(4)], pa.decimal128(4, 0)),
    ):
        whole = key_hashes([column])
        assert key_hashes([column.slice(1, 3)]).tolist() == whole[1:].tolist()


def test_hash_spreads_consecutive_numbers_evenly() -> None:
    counts = np.bincount(Hash().targets([pa.array(range(80_000))], 8))
    assert counts.min() > 9_500
    assert counts.max() < 10_500


def test_hash_without_keys_or_of_a_list_is_refused() -> None:
    with pytest.raises(TopologyError, match="no key columns"):
        Hash().targets([], 2)
    with pytest.raises(TopologyError, match="can't be a key"):
        Hash().targets([pa.array([[1]])], 2)


def test_key_range_puts_a_boundary_into_the_upper_slice_and_nan_and_null_last() -> None:
    column = pa.array([-5.0, 10.0, 19.9, 20.0, float("nan"), None])
    assert KeyRange([10, 20]).targets([column], 3).tolist() == [0, 1, 1, 2, 2, 2]


def test_key_range_compares_several_columns_in_their_order() -> None:
    #            boundary (b, 2):   (a, 9) (b, 1) (b, 2) (c, 0) (b, null)
    letters = pa.array(["a", "b", "b", "c", "b"])
    numbers = pa.array([9, 1, 2, 0, None])
    assert KeyRange([["b", 2]]).targets([letters, numbers], 2).tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("boundaries", "slices", "message"),
    [
        ([10], 3, "set slices: 2"),
        ([20, 10], 3, "10 must be greater than 20"),
        ([10, 10], 3, "there twice"),
        (["x"], 2, "'x' is no int64"),
        ([[1, 2]], 2, "has 2 values, the key has 1"),
    ],
)
def test_key_range_that_does_not_fit_is_refused(
    boundaries: list[object], slices: int, message: str
) -> None:
    with pytest.raises(TopologyError, match=message):
        KeyRange(boundaries).check([pa.int64()], slices)


def test_partitioners_are_found_by_name(tmp_path: Path) -> None:
    assert isinstance(partitioner_named("hash", tmp_path), Hash)
    assert partitioner_named("broadcast", tmp_path).broadcast
    made = partitioner_named({"key_range": {"boundaries": ["m"]}}, tmp_path)
    assert made.targets([pa.array(["a", "z"])], 2).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hsah", "did you mean 'hash'"),
        ("key_range", "takes boundaries, not none"),
        ({"hash": {"seed": 1}}, "takes no settings, not seed"),
        ({"hash": {}, "broadcast": {}}, "one partitioner"),
    ],
)
def test_a_wrong_name_is_refused(spec: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=message):
        partitioner_named(spec, tmp_path)  # type: ignore[arg-type]


def test_a_users_partitioner_is_loaded_by_module_path(tmp_path: Path) -> None:
    (tmp_path / "parity_of_keys.py").write_text(
        "import numpy as np\n"
        "class Parity:\n"
        "    broadcast = False\n"
        "    def __init__(self, shift=0):\n"
        "        self.shift = shift\n"
        "    def targets(self, keys, slices):\n"
        "        return ((keys[0].to_numpy() + self.shift) % 2).astype(np.int32)\n"
        "class Nothing:\n"
        "    pass\n"
    )
    made: Partitioner = partitioner_named("parity_of_keys:Parity", tmp_path, {"shift": 1})
    assert made.targets([pa.array([1, 2])], 2).tolist() == [0, 1]
    with pytest.raises(UserCodeError, match="is no partitioner"):
        partitioner_named("parity_of_keys:Nothing", tmp_path)
    with pytest.raises(UserCodeError, match="can't be made"):
        partitioner_named("parity_of_keys:Parity", tmp_path, {"shft": 1})
