"""How measurements are printed: one line of JSON for machines, a small table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import click

from benchmarks.comparison import Measurement


def comparison_figures(measured: Measurement) -> dict[str, Any]:
    """The figures of a comparison; `ratio` is the engine's events/s over the faster reference's."""
    seconds = measured.engine_seconds
    figures: dict[str, Any] = {
        "name": measured.workload.name,
        "nodes": measured.nodes,
        "events": measured.events,
        "seconds": round(seconds, 4),
        "events_per_second": round(measured.events / seconds),
    }
    if measured.workload.unit != "events":
        units = measured.events * measured.workload.units_per_event
        figures[f"{measured.workload.unit}_per_second"] = round(units / seconds)
    reference_seconds = measured.reference_seconds
    if reference_seconds is not None:
        figures["reference"] = measured.reference
        figures["reference_seconds"] = round(reference_seconds, 4)
        figures["ratio"] = round(reference_seconds / seconds, 3)
    figures["digest"] = measured.digest
    figures["runs"] = [
        {name: round(each[run], 4) for name, each in measured.seconds.items()}
        for run in range(len(measured.seconds["engine"]))
    ]
    return figures


def print_comparison(measured: Measurement, as_json: bool) -> None:
    """One line of JSON, or a table with a row per program."""
    figures = comparison_figures(measured)
    if as_json:
        print_json(figures)
        return
    rows = []
    for name, seconds in measured.seconds.items():
        middle = median(seconds)
        rows.append(
            (
                name,
                f"{middle:.3f}",
                f"{min(seconds):.3f} - {max(seconds):.3f}",
                f"{measured.events / middle / 1e6:.2f} M",
            )
        )
    runs = len(measured.seconds["engine"])
    print(
        f"{measured.workload.name}: {measured.events:,} events, {measured.nodes} nodes, {runs} runs"
    )
    print_table(("program", "median s", "range s", "events/s"), rows)
    unit = measured.workload.unit
    if unit != "events":
        print(f"{figures[f'{unit}_per_second']:,} {unit}/s")
    if measured.reference is not None:
        print(f"ratio to {measured.reference}: {figures['ratio']:.3f}")
    print(f"digest {measured.digest}")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they must be: the first to the left, the others to the right."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    for row in (head, *rows):
        first, *others = (
            text.rjust(width) if place else text.ljust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join((first, *others)))


def print_json(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)


def one_digest(digests: Iterable[str], where: str = "") -> str:
    """That of all runs. Raises ClickException where their outputs differ; `where` says of which runs."""
    found = sorted(set(digests))
    if len(found) != 1:
        differ = f"digests differ: {', '.join(found)}"
        raise click.ClickException(f"{where}: {differ}" if where else differ)
    return found[0]
