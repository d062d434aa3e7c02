"""What came of the mutants: a table, the survivors, and a file to go on from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from mutation.explained import Explained
from mutation.mutants import Mutant, source_digest
from mutation.trials import GROUPS, Verdict

Verdicts = dict[str, Verdict]

_HOWS = (*GROUPS, "hang", "death")


def table(
    mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict], explained: Explained
) -> Table:
    """A line per module and one for all; of the mutants that were tried."""
    made = Table(title=f"{len(verdicts):,} mutants tried", title_justify="left")
    made.add_column("module")
    for name in ("mutants", "caught", "share", *_HOWS, "survived", "explained"):
        made.add_column(name, justify="right")
    tried = [mutant for mutant in mutants if mutant.key in verdicts]
    modules = dict.fromkeys(mutant.module for mutant in tried)
    for name in modules:
        mine = [mutant for mutant in tried if mutant.module == name]
        made.add_row(name, *_cells(mine, verdicts, explained))
    made.add_section()
    made.add_row("all", *_cells(tried, verdicts, explained))
    return made


def _cells(
    mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict], explained: Explained
) -> Iterator[str]:
    hows = Counter(verdicts[each.key].how for each in mutants)
    survived = hows[None]
    reasons = sum(
        verdicts[each.key].by is None and each.key in explained.reasons for each in mutants
    )
    caught = len(mutants) - survived
    share = caught / len(mutants) if mutants else 1.0
    for value in (len(mutants), caught):
        yield str(value)
    yield f"{share:.1%}"
    for how in _HOWS:
        yield str(hows[how])
    yield str(survived)
    yield str(reasons)


def survivor_lines(
    mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict], explained: Explained
) -> Iterator[str]:
    """Every survivor with its place, its change, and the reason where one is known."""
    for mutant in mutants:
        verdict = verdicts.get(mutant.key)
        if verdict is None or verdict.by is not None:
            continue
        tried = f"{verdict.run} checks come there" if verdict.run else "no check comes there"
        yield f"{mutant.path}:{mutant.line}  {mutant.kind}  {mutant.function}  ({tried})"
        yield f"    {mutant.change}"
        if mutant.key in explained.reasons:
            yield f"    {explained.reasons[mutant.key]}"


def save(
    path: Path, mutants: Sequence[Mutant], verdicts: Mapping[str, Verdict], explained: Explained
) -> None:
    """Everything that is known, in one step."""
    tried = [mutant for mutant in mutants if mutant.key in verdicts]
    document = {
        "sources": {name: source_digest(name) for name in {each.module for each in tried}},
        "mutants": [
            {
                "key": mutant.key,
                "module": mutant.module,
                "file": mutant.path,
                "line": mutant.line,
                "kind": mutant.kind.value,
                "function": mutant.function,
                "before": mutant.before,
                "after": mutant.after,
                **asdict(verdicts[mutant.key]),
                "reason": explained.reasons.get(mutant.key),
            }
            for mutant in tried
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(document, indent=1), encoding="utf-8")
    draft.replace(path)


def load(path: Path) -> Verdicts:
    """What an earlier call found of modules that have not changed since."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    same = {name for name, digest in document["sources"].items() if source_digest(name) == digest}
    return {
        each["key"]: Verdict(each["by"], each["how"], each["run"])
        for each in document["mutants"]
        if each["module"] in same
    }
