"""Words of the log explorer: tiles, what stands out, the rules of counting, and numbers as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from placings.core import format_difference, format_interval, format_mean, format_number
from placings.logs import (
    count_abandoned,
    estimate_length,
    estimate_mrr,
    name_unclicked,
    split_lengths,
    weigh_sections,
)

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 30  # clicks from which on a share, or a curve, is worth a sentence
SOON = 0.01  # a difference of MRR that is worth a sentence


def count_tiles(
    log: pd.DataFrame, searches: pd.DataFrame, unsuccessful: pd.DataFrame | None
) -> list[tuple[str, str, str]]:
    """The page's first numbers: each with its word and a detail."""
    clicked = int(searches["rank"].notna().sum())
    mrr = estimate_mrr(searches)
    top = float((searches["rank"].dropna() == 1).mean()) if clicked else math.nan
    tiles = [
        (f"{len(searches):,}", "searches", f"{searches['session_id'].nunique():,} sessions"),
        (f"{len(log):,}", "items shown", f"{len(log) / len(searches):.1f} a search"),
        (f"{clicked:,}", "searches with a click", f"{int((log['label'] > 0).sum()):,} items clicked"),
        (format_mean(mrr.mean), "MRR of the clicks", format_interval(mrr.low, mrr.high)),
        (format_share(top), "first click on rank 1", "of searches with a click"),
    ]
    if searches["located"].notna().any():
        tiles.append((format_share(float(searches["located"].mean())), "share their location", "of searches"))
    failed = split_lengths(searches, unsuccessful)["failed"]
    if len(failed) and name_unclicked(searches) == "failed":
        tiles.append((f"{len(failed):,}", "failed searches", "nothing clicked"))
    elif len(failed):
        tiles.append((f"{len(failed):,}", "searches without a click", "failed or typed on from: not told"))
    typed_on = count_abandoned(searches, unsuccessful)
    if typed_on is not None:
        tiles.append((f"{typed_on:,}", "abandoned prefixes", "typed on from, then clicked"))
    return tiles


def list_findings(log: pd.DataFrame, searches: pd.DataFrame, unsuccessful: pd.DataFrame | None) -> list[str]:
    """What a reader should know first, in sentences; differences that may be chance are left out."""
    found = []
    groups = split_lengths(searches, unsuccessful)
    means = {name: estimate_length(part) for name, part in groups.items()}
    good, bad = means["successful"], means["failed"]
    if bad.low > good.high or bad.high < good.low:
        word = "longer" if bad.mean > good.mean else "shorter"
        told = "Failed searches" if name_unclicked(searches) == "failed" else "Searches without a click"
        found.append(
            f"{told} have {word} queries: {bad.mean:.1f} characters on average against {good.mean:.1f}."
        )
    if searches["located"].notna().any() and 0 < float(searches["located"].mean()) < 1:
        parts = {flag: estimate_mrr(part) for flag, part in searches.groupby("located")}
        gap = parts[1.0].mean - parts[0.0].mean
        if abs(gap) >= SOON and (parts[1.0].low > parts[0.0].high or parts[1.0].high < parts[0.0].low):
            found.append(
                f"MRR with a location is {format_mean(parts[1.0].mean)}, without one "
                f"{format_mean(parts[0.0].mean)}: "
                f"{format_difference(gap)}."
            )
    if "type" in log and log["type"].notna().any() and (log["label"] > 0).any():
        sections, _ = weigh_sections(log)
        busy = sections[sections["clicked"] >= FEWEST]
        if len(sections) > 1 and len(busy):
            one = busy.iloc[int(busy["lift"].argmax())]
            if one["lift"] >= 1.2:
                found.append(
                    f"{one['group']} makes {one['shown_share']:.0%} of what is shown and "
                    f"{one['clicked_share']:.0%} of "
                    f"the clicks; it heads {one['first']:.0%} of the lists it is in."
                )
    return found


def say_span(searches: pd.DataFrame) -> str:
    """From when to when the searches run."""
    known = searches["time"].dropna()
    if not len(known):
        return "The log has no times."
    return f"From {known.min():%Y-%m-%d %H:%M} to {known.max():%Y-%m-%d %H:%M} UTC."


def list_rules(zone: str) -> list[str]:
    """How everything on the page was counted."""
    return [
        "Clicked: a label above 0. The rank of a search is the position of the first item clicked in it.",
        "MRR is the mean of 1/rank over searches with a click; searches without one are in no MRR.",
        "Shares with a click are of the searches among the rows; those given apart are not in them.",
        "Intervals are 95 %, by Student's t, with sessions as what was drawn: searches of one session move "
        "together. They are cut where no mean can lie: at 0, and for MRR at 1.",
        "Lengths are characters of the query as it was sent, spaces included.",
        f"Distances run along the great circle. Hours and weeks are those of {zone}.",
    ]


def format_share(share: float) -> str:
    """A share in percent; a dash when not known."""
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def format_length(value: float) -> str:
    """Two digits after the point; a dash when not known."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def format_km(value: float) -> str:
    """Kilometres in three digits that count.

    >>> format_km(2251.3), format_km(0.0)
    ('2,251 km', '0 km')
    """
    return f"{format_number(value, 3)} km"


def format_ends(low: float, high: float) -> str:
    """An interval in two digits; a dash when not known."""
    return "-" if math.isnan(low) else f"[{low:.2f}, {high:.2f}]".replace("-", "−")
