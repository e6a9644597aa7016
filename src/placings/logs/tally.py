"""A tally of what an import read, kept and could not use: nothing is left out without being counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Counts by name, and for each reason why something was not used its count and where it was first seen.

    >>> tally = Tally()
    >>> tally.count("lines", 2)
    >>> tally.refuse("not JSON", "events.ndjson:7")
    >>> print(tally)
    lines: 2
    not used:
      not JSON: 1 (first at events.ndjson:7)
    """

    counts: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a count, which is there from then on even if nothing is added."""
        self.counts[name] = self.counts.get(name, 0) + more

    def refuse(self, reason: str, where: str) -> None:
        """Count something that is not used."""
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self.first.setdefault(reason, where)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return {
            **self.counts,
            "not_used": {
                reason: {"count": count, "first": self.first[reason]}
                for reason, count in self.refused.items()
            },
        }

    def __str__(self) -> str:
        lines = [f"{name}: {count:,}" for name, count in self.counts.items()]
        if self.refused:
            lines.append("not used:")
            lines += [
                f"  {reason}: {count:,} (first at {self.first[reason]})"
                for reason, count in sorted(self.refused.items(), key=lambda each: -each[1])
            ]
        return "\n".join(lines)
