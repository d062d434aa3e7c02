"""Durations, intervals, paces and sizes as people write them: ``5m``, ``10 epochs``, ``50000/s``, ``64MB``.

Each but a speed is a small value that keeps exact integers and prints itself in a form that parses back
to the same value. Parsing raises ValueError whose text says what would be right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_RATE_SECONDS = {"s": 1, "min": 60, "h": 3600}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_LONGEST_MICROSECONDS = 36_500 * _MICROSECONDS["d"]
_QUANTITY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*", re.ASCII)
_EPOCHS = re.compile(r"\s*([0-9]{1,9})\s*epochs?\s*", re.ASCII)
MOST_SPEED = 1_000_000
"""A day of events in a twelfth of a second."""

_RATE = re.compile(r"\s*([0-9]{1,15})\s*(?:/\s*([A-Za-z]*)\s*)?", re.ASCII)


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time in whole microseconds, not negative."""

    microseconds: int

    @classmethod
    def parse(cls, value: object) -> Duration:
        """From text such as ``10ms``, ``30s``, ``1.5h``, from a timedelta, or from a Duration."""
        if isinstance(value, Duration):
            return value
        if isinstance(value, timedelta):
            microseconds = value // timedelta(microseconds=1)
            if microseconds < 0:
                raise ValueError(f"a duration can't be negative, as {value} is")
            return cls(microseconds)
        found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        if found is None or found[2] not in _MICROSECONDS:
            hint = ""
            if isinstance(value, int | float) and not isinstance(value, bool):
                hint = f"{value} has no unit; write {value}s for seconds. "
            elif found is not None and not found[2]:
                hint = f"{found[1]} has no unit; write {found[1]}s for seconds. "
            elif found is not None:
                hint = f"'{found[2]}' is no unit of time. "
            raise ValueError(
                f"{hint}A duration is a number and a unit, like 10ms, 30s, 5m, 2h or 1d, "
                f"not {value!r}"
            )
        exact = Fraction(found[1]) * _MICROSECONDS[found[2]]
        if exact.denominator != 1:
            raise ValueError(f"a duration is whole microseconds; {value!r} is not")
        if exact > _LONGEST_MICROSECONDS:
            raise ValueError(f"a duration is at most 36500d, not {value!r}")
        return cls(int(exact))

    @property
    def seconds(self) -> float:
        return self.microseconds / 1_000_000

    def __str__(self) -> str:
        if self.microseconds == 0:
            return "0s"
        unit = next(
            unit for unit in reversed(_MICROSECONDS) if self.microseconds % _MICROSECONDS[unit] == 0
        )
        return f"{self.microseconds // _MICROSECONDS[unit]}{unit}"


@dataclass(frozen=True)
class Interval:
    """From one time to the next: a `duration`, or so many `epochs`. One of them is set, and positive."""

    duration: Duration | None = None
    epochs: int | None = None

    @classmethod
    def parse(cls, value: object) -> Interval:
        """From text such as ``500ms``, ``1s`` or ``10 epochs``, from a timedelta, or an Interval."""
        if isinstance(value, Interval):
            return value
        found = _EPOCHS.fullmatch(value) if isinstance(value, str) else None
        if found is not None:
            if int(found[1]) == 0:
                raise ValueError("an interval is at least 1 epoch, not 0 epochs")
            return cls(epochs=int(found[1]))
        if isinstance(value, int) and not isinstance(value, bool):
            raise ValueError(f"{value} has no unit; write {value}s, or {value} epochs")
        try:
            duration = Duration.parse(value)
        except ValueError as error:
            raise ValueError(f"{error}, and an interval can be epochs, like 10 epochs") from None
        if duration.microseconds == 0:
            raise ValueError("an interval is more than 0s, like 500ms, 1s or 10 epochs")
        return cls(duration)

    def __str__(self) -> str:
        if self.duration is not None:
            return str(self.duration)
        return "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"


@dataclass(frozen=True)
class Rate:
    """How fast a source is paced: `events` per `seconds` seconds, both whole and positive."""

    events: int
    seconds: int = 1

    @classmethod
    def parse(cls, value: object) -> Rate:
        """From text such as ``50000/s``, ``10/min``, or from a Rate."""
        if isinstance(value, Rate):
            return value
        found = _RATE.fullmatch(value) if isinstance(value, str) else None
        if found is None or found[2] not in _RATE_SECONDS:
            hint = ""
            number = found[1] if found is not None else value
            whole = isinstance(value, int) and not isinstance(value, bool)
            if whole or (found is not None and not found[2]):
                hint = f"{number} has no unit; write {number}/s. "
            raise ValueError(
                f"{hint}A rate is events per time, like 50000/s, 600/min or 10/h, not {value!r}"
            )
        if int(found[1]) == 0:
            raise ValueError("a rate of 0 would never read a row; leave it out for full speed")
        return cls(int(found[1]), _RATE_SECONDS[found[2]])

    @property
    def per_second(self) -> float:
        """Events per second."""
        return self.events / self.seconds

    def __str__(self) -> str:
        unit = next(unit for unit, seconds in _RATE_SECONDS.items() if seconds == self.seconds)
        return f"{self.events}/{unit}"


def parse_speed(value: object) -> float:
    """How many times as fast as the clock event time runs, from a number such as ``60`` or ``0.5``.

    Raises ValueError unless it is above 0 and at most `MOST_SPEED`.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(
            f"a speed is a number: how many times as fast as the clock event time runs, like 60, "
            f"not {value!r}"
        )
    if not 0 < value <= MOST_SPEED:
        raise ValueError(
            f"a speed is above 0 and at most {MOST_SPEED:,}, not {value}: 1 plays the events as they "
            "happened, 60 a minute of them in each second; leave it out for full speed"
        )
    return float(value)


@dataclass(frozen=True, order=True)
class Size:
    """A number of bytes."""

    bytes: int

    @classmethod
    def parse(cls, value: object) -> Size:
        """From text such as ``64MB`` (10**6) or ``64MiB`` (2**20), a number of bytes, or a Size."""
        if isinstance(value, Size):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        if found is None or (found[2] or "B") not in _BYTES:
            raise ValueError(
                f"a size is a number and a unit, like 512KB, 64MB, 64MiB or 2GB, not {value!r}"
            )
        exact = Fraction(found[1]) * _BYTES[found[2] or "B"]
        if exact.denominator != 1:
            raise ValueError(f"a size is whole bytes; {value!r} is not")
        return cls(int(exact))

    def __str__(self) -> str:
        if self.bytes == 0:
            return "0B"
        units = sorted(_BYTES, key=lambda unit: _BYTES[unit], reverse=True)
        unit = next(unit for unit in units if self.bytes % _BYTES[unit] == 0)
        return f"{self.bytes // _BYTES[unit]}{unit}"
