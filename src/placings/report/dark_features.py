"""A feature that went dark, on the places page: which searches still have it, and what the loss costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placings.evaluation.rendering import format_difference, format_interval, format_mean, format_p
from placings.report.panels import lay_table


def lay_dark_feature(part: Mapping[str, Any], result: Mapping[str, Any], simulated: bool) -> dict[str, Any]:
    """What a panel holds: a sentence, the coverage of each segment, and the cost of three drops.

    `part`, one of `result`, has `feature`, `where`, `shares` (coverage records) and `cost` (drop, mrr, lost,
    low, high, p).
    """
    shares = [
        [
            *(str(row[name]) for name in row if name not in KNOWN),
            f"{row['coverage']:.1%}", f"[{row['low']:.1%}, {row['high']:.1%}]", f"{row['events']:,}",
        ]
        for row in part["shares"]
    ]  # fmt: skip
    segments = [name for name in part["shares"][0] if name not in KNOWN] if part["shares"] else []
    costs = [
        [
            f"{row['drop']:.0%}", format_mean(row["mrr"]), format_difference(-row["lost"]),
            format_interval(-row["high"], -row["low"], signed=True), format_p(row["p"]),
        ]
        for row in part["cost"]
    ]  # fmt: skip
    text = (
        f"The feature {part['feature']} was taken away on {part['where']}, as when a source stops sending. "
        "Below: in which share of the searches it has a value, and what the re-ranker loses on the true "
        "target when it is missing in a share of all searches."
    )
    header = (*segments, "covered", "95 % interval", "searches")
    return {
        "text": text,
        "tables": (
            lay_table(header, shares, left=max(1, len(segments)), simulated=simulated),
            lay_table(
                ("searches without it", "MRR with it", "change", "95 % interval", "p"), costs,
                simulated=simulated,
            ),
        ),
    }  # fmt: skip


KNOWN = ("feature", "coverage", "low", "high", "events", "covered")
