"""How ready the replicas of slices stand, and why, out of a status answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streammine.cli.figures import counted_from, epoch_text
from streammine.cli.tables import text_table
from streammine.model.lacking import Lack
from streammine.model.schemes import SchemeOrigin
from streammine.model.suggestions import listed

DECISIONS_SHOWN = 8
"""In a terminal, the newest."""

_COLUMNS = (
    "slice",
    "scheme",
    "set by",
    "node",
    "generation",
    "rung",
    "phase",
    "epoch",
    "state",
    "waiting",
    "events in",
    "since",
    "sent",
    "recovery",
    "cost",
)

_SHOWN = ("scheme", "set_by", "stands", "chosen", "unestimated", "replicas")


@dataclass(frozen=True)
class SchemesShown:
    """Of one job; `told` is its part of a StatusAnswer's payload."""

    told: dict[str, Any]

    def tree(self) -> dict[str, Any]:
        """As plain data: by slice its scheme, what stands of it, its replicas, and what each would take and
        cost; the replicas that have no node; the last decisions."""
        return {
            "slices": {
                name: {key: each[key] for key in _SHOWN}
                for name, each in self.told["slices"].items()
            },
            "lacking": self.told["lacking"],
            "decisions": self.told["decisions"],
        }

    def lines(self) -> Iterator[str]:
        """A row for each replica, what has no node, why slices have their schemes, and the last decisions."""
        rows = [
            row for name, each in self.told["slices"].items() for row in _replica_rows(name, each)
        ]
        if rows:
            yield text_table(rows, list(_COLUMNS))
        for lack in self.told["lacking"]:
            yield str(Lack(**lack))
        for reason, names in _reasons(self.told["slices"]).items():
            yield f"{listed(names)}: {reason}"
        for decision in self.told["decisions"][-DECISIONS_SHOWN:]:
            change = f"{decision['previous']} -> {decision['chosen']}"
            moment = datetime.fromtimestamp(decision["at_seconds"]).astimezone()
            yield f"{moment:%Y-%m-%d %H:%M:%S} {decision['slice']}: {change}: {decision['reason']}"


def _replica_rows(name: str, told: dict[str, Any]) -> Iterator[dict[str, object]]:
    """What a slice is to have, and the estimate of what stands of it, are in its first row."""
    for turn, each in enumerate(told["replicas"]):
        counters = each["counters"]
        yield {
            "slice": name if not turn else "",
            "scheme": told["scheme"] if not turn else "",
            "set by": _set_by(told) if not turn else "",
            "node": each["node"],
            "generation": each["generation"],
            "rung": "leads" if each["leads"] else each["rung"],
            "phase": each["phase"],
            "epoch": epoch_text(each["frontier"]),
            "state": f"{counters.get('state_bytes', 0) / 1e6:,.1f} MB",
            "waiting": f"{counters.get('bytes_waiting', 0) / 1e6:,.1f} MB",
            "events in": f"{counters.get('rows_in', 0):,.0f}",
            "since": counted_from(counters),
            "sent": f"{counters.get('rows_sent', 0):,.0f}",
            **(_estimate(told) if not turn else {"recovery": "", "cost": ""}),
        }


def _set_by(told: dict[str, Any]) -> str:
    """Of what is chosen, how it stands with the choice as well."""
    if told["set_by"] != SchemeOrigin.CONTROLLER or told["chosen"] is None:
        return str(told["set_by"])
    return f"{told['set_by']}, {told['chosen']['phase']}"


def _reasons(slices: dict[str, Any]) -> dict[str, list[str]]:
    """Why a controller has chosen what slices have, else why there are no estimates yet; and which slices."""
    found: dict[str, list[str]] = {}
    for name, told in slices.items():
        chosen = told["chosen"]
        if chosen is None:
            found.setdefault(f"not estimated: {told['unestimated']}", []).append(name)
            continue
        if told["set_by"] == SchemeOrigin.CONTROLLER:
            found.setdefault(chosen["reason"], []).append(name)
        elif chosen["missing"]:
            found.setdefault(f"not measured yet: {', '.join(chosen['missing'])}", []).append(name)
    return found


def _estimate(told: dict[str, Any]) -> dict[str, str]:
    chosen = told["chosen"]
    if chosen is None:
        return {"recovery": "-", "cost": "-"}
    if told["stands"] not in chosen["schemes"]:
        return {"recovery": "?", "cost": "?"}
    estimate = chosen["schemes"][told["stands"]]
    seconds = estimate["seconds"]
    return {
        "recovery": "never" if seconds is None else f"{seconds:.2f} s",
        "cost": f"{estimate['cost']:.2f}",
    }
