"""The runbook: what each kind of alert means and what to do; docs/coverage_alerts.md has the same."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from placings.core import UnknownName

COMMAND = "placings coverage runbook"


@dataclass(frozen=True)
class RunbookEntry:
    """What an alert means, and what to do, step by step; `**bold**` and `` `code` `` as in Markdown."""

    title: str
    meaning: str
    steps: tuple[str, ...]

    def to_text(self, width: int = 100) -> str:
        """The entry for a terminal."""
        lines = [self.title, "", *textwrap.wrap(self.meaning, width), ""]
        for number, step in enumerate(self.steps, 1):
            lines += textwrap.wrap(
                step.replace("**", ""), width, initial_indent=f"{number}. ", subsequent_indent="   "
            )
        return "\n".join(lines)


ENTRIES: Mapping[str, RunbookEntry] = {
    "severe-drop": RunbookEntry(
        "A severe drop",
        "A feature lost about 20 points or more in a segment, and it was flagged in its own window. "
        "Rankers fill the gap with zero and order by what is left.",
        (
            "**Which features fell together?** Those of one source (clicks, carts, purchases) point "
            "to their pipeline or feature store; all features point to the logger or to timeouts; one"
            " alone to a rename, a type or a unit.",
            "**Which segments?** One region: its data centre, its import, its permissions. One "
            "platform: the last release of that client. New items only: the launch import. All: the "
            "feature's own job.",
            "**What changed on the onset day?** Deployments, schema changes, expired credentials, a "
            "backfill that wrote zeros.",
            "**What does it cost?** Score the feature's loss on a labelled reference set (`placings "
            "coverage risk`). If it is much: roll back, or serve with a ranker that was trained "
            "without the feature.",
            "**After the repair** compute the lost days again if the values can be had (`placings "
            "coverage trend --since`), and check that the incident ends. Leave dark days out of "
            "training data.",
        ),
    ),
    "mild-drop": RunbookEntry(
        "A mild drop",
        "A few points in three of four windows. Less urgent, and more often a slow change than a break.",
        (
            "Look at the trend: a step has a cause on one day (go on as for a severe drop); a slope "
            "is a leak: a cache that grows stale, an import that loses more each day, a catalogue "
            "that grows faster than its reviews.",
            "Compare old with new items (`compare_ages`) and days since launch (`trace_launch`). If "
            "only new items lack the feature, it is a cold start, not a fault.",
            "Compare head with tail queries (`label_head_tail`). More tail traffic lowers features of"
            " query and item, with nothing broken.",
            "If the new level is right, leave the days before it out of the log that is judged, so "
            "that the baseline begins anew.",
        ),
    ),
    "no-data": RunbookEntry(
        "No data",
        "A segment that usually has events has almost none. Nothing is known about its features; they"
        " may be fine.",
        (
            "Is the log late? Compare the watermark with what has arrived. If it is late, judge again"
            " when it is there.",
            "Are searches served? If the shop has traffic and the log has none, the logger is down. "
            "If there is no traffic, this is not about features.",
            "Was the segment renamed, merged or closed? Then another segment has its events since the"
            " same window.",
            "Only one feature has no data: its column is missing from the log. Ask who writes it.",
        ),
    ),
    "mix-shift": RunbookEntry(
        "A shift in the mix",
        "Overall coverage fell, but hardly within the segments: more of the events are of segments "
        "that have the feature less often.",
        (
            "Which segments grew? Compare their shares of the events with those of the same weekday "
            "before. Campaigns, launches, seasons and bots do this.",
            "Nothing is to be repaired. But the ranker now works more often without the feature: look"
            " at its quality in the segments that grew.",
            "If a new region or a new kind of item grows, follow its cold start (`trace_launch`).",
        ),
    ),
    "overall-drop": RunbookEntry(
        "An overall drop",
        "Overall coverage surely fell, and the mix of segments explains at most three quarters of it."
        " Within the segments there is a loss too, but by itself it is too small, or too uncertain, "
        "for an incident.",
        (
            "Look at the two parts. For the part by the mix, see which segments grew, as for a shift "
            "in the mix.",
            "For the part within, look at the trend of each segment. A little lost everywhere points "
            "to the feature's own job; go on as for a mild drop.",
            "Look again tomorrow: a loss within that stays becomes a mild drop after three of four windows.",
        ),
    ),
}


def find_entry(name: str) -> RunbookEntry:
    """The entry of this name."""
    if name not in ENTRIES:
        raise UnknownName("entry of the runbook", name, ENTRIES)
    return ENTRIES[name]
