"""What a join saw: everything that was read, what became of it, by which rule; the counts add up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RULES: dict[str, dict[str, str]] = {
    "searches": {
        "used": "became a search",
        "no_id": "left out: search_id is null or empty",
        "no_time": "left out: time is null",
        "same": "united with an entry of the same id and time",
        "repeated": "left out: the id was there before; its earliest time counts",
        "cut": "left out: the last line of its file ends early",
    },
    "items": {
        "in_rows": "in the rows",
        "apart": "kept apart: of a search without a used action",
        "no_id": "left out: item_id is null or empty",
        "double": "left out: the item stands higher in the same list",
        "of_no_search": "left out: of an entry without id or time",
        "of_repeated": "left out: of a repeated entry",
    },
    "actions": {
        "used": "used",
        "out_of_order": "used: before its search, within the slack",
        "no_id": "left out: search_id or item_id is null or empty",
        "no_time": "left out: time is null",
        "unknown_action": "left out: the action has no grade",
        "duplicate": "left out: same search, item, action and time",
        "orphaned": "left out: no such search",
        "early": "left out: longer before its search than the slack",
        "late": "left out: longer after its search than the window",
        "not_in_list": "left out: the item was not in the list",
        "cut": "left out: the last line of its file ends early",
    },
    "outcomes": {
        "successful": "a used action above grade 0",
        "abandoned": "none, but a later search of its chain is successful: no failure",
        "unmatched": "none, but actions that could not be used",
        "failed": "none",
    },
}
SNAPSHOT_RULES = {
    "used": "used",
    "no_id": "left out: item_id is null or empty",
    "no_time": "left out: time is null",
    "replaced": "left out: a later row has the same item and time",
    "cut": "left out: the last line of its file ends early",
}
READ = {
    "searches": "entries read",
    "items": "items read",
    "actions": "actions read",
    "outcomes": "searches",
    "snapshots": "snapshots read",
}


@dataclass(frozen=True)
class JoinReport:
    """Counts of all that a join read, by what became of it.

    `read` has the totals of "searches" (entries of the log; in a flat log the different ids and times),
    "items" and "actions", and of "outcomes" the searches. `searches`, `items`, `actions` and `outcomes` part
    these totals: each adds up. `notes` are counts that part nothing: rows and groups made, chains, positions
    that were missing. `ignored` are columns of the actions that nothing was done with. `unknown` counts the
    actions without a grade by name, the ten most frequent ones. `times` says of each file whose times are
    numbers what they were taken for. `cut` are the places of lines that end early.
    """

    read: Mapping[str, int]
    searches: Mapping[str, int]
    items: Mapping[str, int]
    actions: Mapping[str, int]
    outcomes: Mapping[str, int]
    notes: Mapping[str, int]
    settings: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)
    cut: tuple[str, ...] = ()
    snapshots: Mapping[str, int] = field(default_factory=dict)  # where there were any

    @property
    def adds_up(self) -> bool:
        """Whether each part's counts sum to what was read: nothing was dropped silently."""
        parts = [*RULES, *(["snapshots"] if self.snapshots else [])]
        return all(sum(getattr(self, part).values()) == self.read[part] for part in parts)

    @property
    def broken(self) -> int:
        """How many entries, items and actions were left out."""
        kept = {"searches": ("used",), "items": ("in_rows", "apart"), "actions": ("used", "out_of_order")}
        return sum(
            count
            for part, good in kept.items()
            for name, count in getattr(self, part).items()
            if name not in good
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "read": dict(self.read),
            **{part: dict(getattr(self, part)) for part in RULES},
            **({"snapshots": dict(self.snapshots)} if self.snapshots else {}),
            "notes": dict(self.notes),
            "settings": dict(self.settings),
            "ignored_columns": list(self.ignored),
            "unknown_actions": dict(self.unknown),
            "times": dict(self.times),
            "cut_lines": list(self.cut),
            "adds_up": self.adds_up,
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def say_unknown(self) -> str:
        """The actions without a grade, how often each came, and the grades there are."""
        named = ", ".join(f"{name!r} ({count:,})" for name, count in self.unknown.items())
        rest = self.actions["unknown_action"] - sum(self.unknown.values())
        more = f" and {rest:,} of other names" if rest else ""
        grades = ", ".join(f"{name}={grade:g}" for name, grade in self.settings.get("grades", {}).items())
        return f"{named}{more}; the grades are {grades}"

    def table(self) -> str:
        """For people: each count with its rule; what never happened is left out."""
        lines = []
        told = {**RULES, **({"snapshots": SNAPSHOT_RULES} if self.snapshots else {})}
        for part, rules in told.items():
            lines.append(f"{READ[part]:<22}{self.read[part]:>13,}")
            counts = getattr(self, part)
            lines += [
                f"  {name:<20}{counts[name]:>13,}  {rule}" for name, rule in rules.items() if counts.get(name)
            ]
        lines.append("notes")
        lines += [f"  {name.replace('_', ' '):<20}{count:>13,}" for name, count in self.notes.items()]
        if self.unknown:
            lines.append(f"actions without a grade: {self.say_unknown()}")
        lines += [f"times of the {part}: {unit}" for part, unit in self.times.items()]
        if self.cut:
            lines.append(f"cut lines: {', '.join(self.cut)}")
        if self.ignored:
            lines.append(f"columns of the actions not used: {', '.join(self.ignored)}")
        lines.append("the counts add up" if self.adds_up else "THE COUNTS DO NOT ADD UP: please report this")
        return "\n".join(lines)
