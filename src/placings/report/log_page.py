"""The log explorer: what people searched for, where they clicked and what that says, as one HTML file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, UnknownName, format_interval, format_mean
from placings.logs import SEGMENTS as KNOWN_SEGMENTS
from placings.logs import (
    SHAPES,
    Fit,
    clean_rows,
    compare_groups,
    count_click_ranks,
    count_hours,
    count_weeks,
    estimate_length,
    fit_decay,
    gather_searches,
    measure_distances,
    measure_lengths,
    measure_positions,
    name_unclicked,
    observe_distances,
    split_lengths,
    weigh_sections,
)
from placings.report import log_figures as figures
from placings.report.log_words import (
    FEWEST,
    count_tiles,
    format_ends,
    format_km,
    format_length,
    format_share,
    list_findings,
    list_rules,
    say_span,
)
from placings.report.pages import Panel, lay_table, write_page

if TYPE_CHECKING:
    import pandas as pd

DEEPEST = 10
TOP = 10  # items of the weekly figure


def write_log_page(
    path: str | Path,
    rows: Any,
    *,
    unsuccessful: pd.DataFrame | None = None,
    title: str = "What the log says",
    source: str = "",
    zone: str = "UTC",
    types: str = "type",
    simulated: bool | None = None,
) -> Path:
    """Write the explorer of a rows table as one page; no script, nothing fetched from elsewhere.

    `rows` has one row an item shown: search_id, item_id, position and label are needed, the other columns of
    the log's schema make more panels, and a panel whose columns are missing says so in a sentence.
    `unsuccessful` are searches without a click that are not among the rows. Hours and weeks are those of
    `zone`; `types` names the column that says what kind of item each is, such as a shop's category. Every
    heading says SIMULATED if `simulated`; unless said, a log with the column `is_target` is, for only a
    simulator knows it. Needs the extra `report`.
    """
    log, notes = clean_rows(rows)
    if types != "type":
        if types not in log:
            raise UnknownName("column", types, map(str, log.columns))
        log = log.assign(type=log[types])
    if not len(log):
        raise BadInput("the log has no row that can be counted. Got an empty table.")
    searches = gather_searches(log)
    made = "is_target" in log if simulated is None else simulated
    panels = [
        _show_ranks(log, made),
        _show_lengths(searches, made),
        _show_outcomes(searches, unsuccessful, made),
        _show_locations(searches, made),
        _show_distances(log, made),
        _show_sections(log, made),
        _show_weeks(log, zone),
        _show_hours(searches, zone),
        _show_segments(searches, made),
    ]
    return write_page(
        path, "log.html",
        title=title, subtitle=" ".join(filter(None, [source, say_span(searches)])), simulated=made,
        tiles=count_tiles(log, searches, unsuccessful),
        findings=list_findings(log, searches, unsuccessful), panels=panels,
        notes=[*notes, *list_rules(zone)],
    )  # fmt: skip


# -- panels -------------------------------------------------------------------------------------------


def _show_ranks(log: pd.DataFrame, made: bool) -> Panel:
    name, places = "Where people click", "Figure 2.3"
    if not (log["label"] > 0).any():
        return Panel("ranks", name, lack="Nothing was clicked in this log.", places=places)
    positions = measure_positions(log)
    drawn = [
        (
            figures.draw_positions(positions),
            "How often an item is clicked at each position where it is shown.",
        )
    ]
    text = ""
    if "type" in log:
        counts = count_click_ranks(log, "type", deepest=DEEPEST)
        caption = "Clicks by the type of the item; the last bar is everything below, dashes are all clicks."
        drawn.append((figures.draw_click_ranks(counts), caption))
    else:
        text = "The log has no column `type`, so clicks are not told apart by type."
    rows = [
        (f"{row.position}", f"{row.shown:,}", f"{row.clicked:,}", format_share(row.rate))
        for row in _list_rows(positions.head(DEEPEST))
    ]
    table = lay_table(["position", "shown", "clicked", "click rate"], rows, simulated=made)
    return Panel("ranks", name, text, tuple(drawn), (table,), places=places)


def _show_lengths(searches: pd.DataFrame, made: bool) -> Panel:
    name, places = "Query length by clicked rank", "Figure 2.4"
    found = measure_lengths(searches, deepest=DEEPEST)
    if not len(found):
        return Panel("lengths", name, lack="No search has both a query text and a click.", places=places)
    rows = [
        (f"{row.rank}+" if row.rank > DEEPEST else f"{row.rank}", f"{row.searches:,}", f"{row.mean:.2f}",
         format_ends(row.low, row.high))
        for row in _list_rows(found)
    ]  # fmt: skip
    table = lay_table(["rank", "searches", "mean length", "95 % interval"], rows, simulated=made)
    drawn = figures.draw_lengths_by_rank(found, DEEPEST)
    return Panel(
        "lengths",
        name,
        "",
        ((drawn, "Mean number of characters, with 95 % intervals."),),
        (table,),
        places=places,
    )


def _show_outcomes(searches: pd.DataFrame, unsuccessful: pd.DataFrame | None, made: bool) -> Panel:
    name, places = "Searches that succeed and searches that fail", "Figures 1.5, 1.6"
    groups = split_lengths(searches, unsuccessful)
    word, text = name_unclicked(searches), ""
    if word != "failed":
        text = (
            "The rows have no column `outcome`, so searches that failed and prefixes that someone typed on "
            "from are not told apart. `placings log join --unsuccessful negatives` writes it."
        )
    if not len(groups["successful"]) or not len(groups["failed"]):
        which = "without" if len(groups["successful"]) else "with"
        lack = (
            f"The log holds no search {which} a click whose query is known, so there is nothing to compare."
        )
        if which == "without":
            lack += " Give the unsuccessful searches too: `placings log join` keeps them apart."
        return Panel("outcomes", name, lack=lack, places=places)
    groups = {"successful": groups["successful"], word: groups["failed"]}
    drawn = figures.draw_histograms(
        {word: part["length"].to_numpy() for word, part in groups.items()}, xlabel="query length, characters"
    )
    rows = []
    for word, part in groups.items():
        one = estimate_length(part)
        median = float(part["length"].median())
        rows.append(
            (word, f"{len(part):,}", f"{one.mean:.2f}", format_ends(one.low, one.high), f"{median:g}")
        )
    table = lay_table(["searches", "number", "mean length", "95 % interval", "median"], rows, simulated=made)
    return Panel(
        "outcomes", name, text, ((drawn, "Shares of each group's own searches."),), (table,), places=places
    )


def _show_locations(searches: pd.DataFrame, made: bool) -> Panel:
    name, places = "With and without a location", "Figures 1.7, 1.8"
    if searches["located"].isna().all():
        return Panel("location", name, lack="The log has no columns focus_lat and focus_lon.", places=places)
    named = searches.assign(where=_name_located(searches))
    found = compare_groups(named, "where")
    if len(found) < 2:
        only = str(found["group"].iloc[0])
        return Panel(
            "location", name, lack=f"All searches are {only}: there is nothing to compare.", places=places
        )
    drawn = []
    ranks = {
        word: named.loc[(named["where"] == word) & named["rank"].notna(), "rank"] for word in found["group"]
    }
    if all(len(values) for values in ranks.values()):
        shown = figures.draw_histograms(ranks, xlabel="rank of the first click", deepest=DEEPEST)
        drawn.append((shown, "Rank of the first click; the dashed line is the mean rank."))
    lengths = {
        word: named.loc[(named["where"] == word) & named["length"].notna(), "length"]
        for word in found["group"]
    }
    if all(len(values) for values in lengths.values()):
        drawn.append((figures.draw_histograms(lengths, xlabel="query length, characters"), "Query lengths."))
    return Panel("location", name, "", tuple(drawn), (_lay_groups(found, "location", made),), places=places)


def _show_distances(log: pd.DataFrame, made: bool) -> Panel:
    name, places = "How far people click, and what a decay makes of it", "Figures 1.2, 1.3"
    away = measure_distances(log)
    clicked = away[(log["label"] > 0).to_numpy()]
    known = clicked[~np.isnan(clicked)]
    if not len(known):
        lack = "No clicked item has a position (lat, lon) beside a user's (focus_lat, focus_lon)."
        return Panel("distances", name, lack=lack, places=places)
    if len(known) < FEWEST:
        lack = f"Only {len(known)} clicked items have a known distance; from {FEWEST} on curves are fitted."
        return Panel("distances", name, lack=lack, places=places)
    observed = observe_distances(known)
    fits = [fit_decay(observed, kind) for kind in SHAPES]
    best = min(range(len(fits)), key=lambda number: fits[number].error)
    text = (
        f"Half of the clicked places lie within {format_km(np.median(known))} of the user, nine of ten "
        f"within {format_km(np.quantile(known, 0.9))}; {observed.beyond:.1%} lie beyond "
        f"{format_km(observed.edges[-1])} and are not drawn. Elasticsearch can weigh distance by one of "
        "three decay functions. Each is shown with the "
        "scale and offset that come nearest to the clicks, by least squares over the bars; decay stays at "
        f"{fits[0].decay:g}, for another decay with another scale is the same curve. {_say_fit(fits[best])} "
        "The bars "
        "also hold how many places there are at each distance, which a decay does not know."
    )
    drawn = (
        (figures.draw_distances(observed), "Distances between users and the places they clicked."),
        (figures.draw_decays(observed, fits), "Red: the curve; shaded: where it is off."),
    )
    return Panel("distances", name, text, drawn, (_lay_fits(fits, best, made),), places=places)


def _show_sections(log: pd.DataFrame, made: bool) -> Panel:
    name, places = "Sections: what grouping by type does", "Figure 1.1, §6.2.2"
    if "type" not in log or log["type"].isna().all():
        return Panel("sections", name, lack="The items of this log have no type.", places=places)
    found, grouped = weigh_sections(log)
    if not found["clicked"].sum():
        return Panel("sections", name, lack="Nothing was clicked in this log.", places=places)
    together = "No list shows two types." if math.isnan(grouped) else (
        f"In {grouped:.0%} of the lists with two types or more, each type's items stand together in one "
        "section."
    )  # fmt: skip
    text = (
        f"{together} Where a section stands says much about who is clicked: compare the last two columns, "
        "how often "
        "the first item of a section is clicked when its section is on top and when it is not. A higher MRR "
        "within "
        "the section than in the list is what users saw if results were grouped."
    )
    rows = [
        (row.group, f"{row.shown:,}", format_share(row.shown_share), f"{row.clicked:,}",
         format_share(row.clicked_share),
         f"{row.lift:.2f}", format_mean(row.mrr), format_mean(row.mrr_within), format_share(row.first),
         format_share(row.top_first), format_share(row.top_later))
        for row in _list_rows(found)
    ]  # fmt: skip
    header = [
        "type", "shown", "share", "clicked", "share", "lift", "MRR in the list", "MRR in its section",
        "lists it heads", "top item clicked: section first", "section later",
    ]  # fmt: skip
    note = "Lift: share of clicks over share of impressions; 1 is as often clicked as shown."
    table = lay_table(header, rows, notes=[note], simulated=made)
    return Panel("sections", name, text, ((figures.draw_sections(found), ""),), (table,), places=places)


def _show_weeks(log: pd.DataFrame, zone: str) -> Panel:
    name, places = f"The {TOP} most clicked items, week by week", "Figure 1.4"
    found = count_weeks(log, top=TOP, zone=zone)
    if not len(found):
        return Panel("weeks", name, lack="No click has a time.", places=places)
    weeks = found["week"].nunique()
    if weeks < 2:
        return Panel("weeks", name, lack="All clicks fall into one week.", places=places)
    text = f"Shares of all clicks in each of {weeks} weeks; the first and the last may be there in part."
    return Panel(
        "weeks", name, text, ((figures.draw_weeks(found), f"Weeks begin on Monday, {zone}."),), places=places
    )


def _show_hours(searches: pd.DataFrame, zone: str) -> Panel:
    counts = count_hours(searches, zone=zone)
    if not counts.sum():
        return Panel("hours", "Hours and weekdays", lack="No search has a time.")
    return Panel(
        "hours", "Hours and weekdays", "", ((figures.draw_hours(counts), f"Searches; clocks of {zone}."),)
    )


def _show_segments(searches: pd.DataFrame, made: bool) -> Panel:
    there = [name for name in KNOWN_SEGMENTS if name in searches and searches[name].notna().any()]
    if not there:
        return Panel("segments", "Segments", lack="The log has no column platform, target, surface or kind.")
    tables = tuple(_lay_groups(compare_groups(searches, name), name, made) for name in there)
    return Panel("segments", "Segments", tables=tables)


# -- tables and words ---------------------------------------------------------------------------------


def _list_rows(frame: pd.DataFrame) -> list[Any]:
    return list(frame.itertuples())


def _lay_groups(found: pd.DataFrame, by: str, made: bool) -> str:
    rows = [
        (row.group, f"{row.searches:,}", format_share(row.share), format_share(row.clicked),
         format_mean(row.mrr), format_interval(row.mrr_low, row.mrr_high), format_length(row.length),
         format_ends(row.length_low, row.length_high))
        for row in _list_rows(found)
    ]  # fmt: skip
    header = [by, "searches", "share", "with a click", "MRR", "95 % interval", "mean length", "95 % interval"]
    return lay_table(header, rows, simulated=made)


def _lay_fits(fits: list[Fit], best: int, made: bool) -> str:
    rows = [
        (figures.DECAYS[fit.kind], "the user", format_km(fit.scale), format_km(fit.offset),
         f"{fit.decay:g}",
         f"{fit.error:.4f}", f"{fit.worst:.3f} at {format_km(fit.worst_at)}",
         f"{fit.explained:.1%}".replace("-", "−"))
        for fit in fits
    ]  # fmt: skip
    header = ["decay function", "origin", "scale", "offset", "decay", "off by (RMS)", "most off", "explained"]
    note = "Off by: root of the mean squared difference between curve and bars, whose largest is 1. "
    note += "Explained: below 0 a flat line would be nearer."
    return lay_table(header, rows, notes=[note], best={5: best}, simulated=made)


def _say_fit(fit: Fit) -> str:
    name = figures.DECAYS[fit.kind]
    return (
        f"The nearest is the {name} one; it stays off by {fit.error:.3f} on average and by {fit.worst:.2f} "
        "at "
        f"{format_km(fit.worst_at)}."
    )


def _name_located(searches: pd.DataFrame) -> Any:
    return np.where(searches["located"] > 0, "with a location", "without a location")
