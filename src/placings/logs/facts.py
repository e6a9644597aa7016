"""What a log of searches says: clicked ranks, query lengths, sections, locations, hours and weeks.

Every function takes the rows table (one row an item shown) or what `gather_searches` makes of it, and gives
numbers; drawing them is the report's business. A clicked row is one with a label above 0. The rank of a
search is the position of the first item clicked in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Estimate,
    Floats,
    Ints,
    as_utc,
    estimate_mean,
    great_circle_km,
    need_library,
    need_zone,
)
from placings.logs.schema import ITEM_ID, LABEL, NEEDED, POSITION, SEARCH_ID, SESSION_ID, TIME

if TYPE_CHECKING:
    import pandas as pd

SEGMENTS = ("platform", "target", "surface", "kind")
USED = (
    *NEEDED, *SEGMENTS, "session_id", "time", "query", "focus_lat", "focus_lon", "lat", "lon", "type", "name",
    "outcome", "is_target",
)  # fmt: skip
NONE = "(none)"
OTHER = "(others)"


def clean_rows(rows: Any) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows as a pandas table fit for counting, and sentences on what was left out.

    Takes pandas, Arrow or a dict of columns; the input is not changed. Times become UTC without a zone.
    Rows without a search, an item or a position of 1 or more are left out and counted; a label that is
    missing is 0. Without one of search_id, item_id, position and label it is an error.
    """
    pandas = need_pandas()
    frame = _as_frame(rows, pandas)
    lacking = [name for name in NEEDED if name not in frame]
    if lacking:
        raise BadInput(
            f"a rows table must have the columns {', '.join(NEEDED)}. Got none named {', '.join(lacking)}. "
            "`placings log join` makes such a table."
        )
    position = pandas.to_numeric(frame[POSITION], errors="coerce")
    label = pandas.to_numeric(frame[LABEL], errors="coerce")
    notes = []
    usable = (position >= 1) & frame[SEARCH_ID].notna() & frame[ITEM_ID].notna()
    if not usable.all():
        notes.append(
            f"{int((~usable).sum()):,} of {len(frame):,} rows lack a search, an item or a position and are "
            "left out."
        )
    if label.isna().any():
        notes.append(f"{int(label.isna().sum()):,} rows have no label and count as not clicked.")
    frame = frame.assign(position=position, label=label.fillna(0.0))[usable].reset_index(drop=True)
    if TIME in frame:
        time = _read_times(frame[TIME])
        unread = int((time.isna() & frame[TIME].notna()).sum())
        if unread:
            notes.append(f"{unread:,} rows have a time that cannot be read and are in no week and no hour.")
        frame[TIME] = time
    return frame, tuple(notes)


def gather_searches(rows: pd.DataFrame) -> pd.DataFrame:
    """One line a search, in the rows' order: what was asked, where, and the first position clicked.

    Columns: search_id, session_id (the search itself where there is none), time, query, `length` in
    characters, `located` (1.0 if the user's position is known), `rank` (NaN without a click), `items`,
    `clicks`, and platform, target, surface, kind, outcome where the log has them. What else it lacks is NaN.
    """
    pandas = need_pandas()
    codes, ids = pandas.factorize(rows[SEARCH_ID], sort=False)
    first = np.unique(codes, return_index=True)[1]
    hit = (rows[LABEL] > 0).to_numpy()
    position = rows[POSITION].to_numpy(dtype=np.float64)
    rank = np.full(len(ids), np.inf)
    np.minimum.at(rank, codes[hit], position[hit])
    head = rows.iloc[first]
    found = {
        "search_id": np.asarray(ids),
        "session_id": _name_sessions(head),
        "time": head[TIME].to_numpy() if TIME in rows else np.datetime64("NaT", "us"),
        "query": head["query"].to_numpy() if "query" in rows else None,
        "length": _measure_text(head),
        "located": _find_located(head),
        "rank": np.where(np.isinf(rank), np.nan, rank),
        "items": np.bincount(codes, minlength=len(ids)),
        "clicks": np.bincount(codes[hit], minlength=len(ids)),
    }
    found |= {name: head[name].to_numpy() for name in (*SEGMENTS, "outcome") if name in rows}
    return build_frame(found)


def estimate_mrr(searches: pd.DataFrame) -> Estimate:
    """The mean of 1/rank over searches with a click, over sessions; its interval is cut at 0 and 1."""
    found = estimate_mean(1.0 / searches["rank"].to_numpy(dtype=np.float64), searches[SESSION_ID])
    low, high = (float(np.clip(end, 0.0, 1.0)) for end in (found.low, found.high))
    return Estimate(found.mean, low, high, found.count)


def estimate_length(searches: pd.DataFrame) -> Estimate:
    """The mean length of the queries, over sessions; its interval is cut at 0.

    It is cut, not made on another scale: of a few sessions Student's t reaches far to both sides, and what it
    says of the upper end stays as it is, while no query is shorter than nothing.
    """
    found = estimate_mean(searches["length"].to_numpy(), searches[SESSION_ID])
    return Estimate(found.mean, float(np.maximum(found.low, 0.0)), found.high, found.count)


def count_click_ranks(
    rows: pd.DataFrame, by: str | None = None, *, deepest: int = 10, most: int = 8
) -> pd.DataFrame:
    """How many clicks fell on each position, for each value of a column: Figure 2.3.

    Columns: group, rank (1 … deepest; `deepest + 1` holds all below), clicks, share (of the group's clicks).
    Groups come with the most clicked first; beyond `most` the rest is one group. Empty without a click.
    """
    hits = rows[rows[LABEL] > 0]
    groups = name_groups(hits[by], most) if by is not None else np.full(len(hits), "all", dtype=object)
    ranks = np.minimum(hits[POSITION].to_numpy(dtype=np.int64), deepest + 1)
    found = []
    for name in order_groups(groups):
        counts = np.bincount(ranks[groups == name], minlength=deepest + 2)[1:]
        found += [
            {"group": name, "rank": rank, "clicks": int(count), "share": float(count / counts.sum())}
            for rank, count in enumerate(counts, 1)
        ]
    return build_frame(found, columns=["group", "rank", "clicks", "share"])


def measure_positions(rows: pd.DataFrame, *, deepest: int = 20) -> pd.DataFrame:
    """Each position's impressions, clicks and click rate: position, shown, clicked, rate."""
    place = rows[POSITION].to_numpy(dtype=np.int64)
    near = place <= deepest
    hit = (rows[LABEL] > 0).to_numpy()
    shown = np.bincount(place[near], minlength=deepest + 1)[1:]
    clicked = np.bincount(place[near & hit], minlength=deepest + 1)[1:]
    with np.errstate(invalid="ignore"):
        rate = clicked / shown
    made = {"position": np.arange(1, deepest + 1), "shown": shown, "clicked": clicked, "rate": rate}
    frame = build_frame(made)
    return frame[frame["shown"] > 0].reset_index(drop=True)


def measure_lengths(searches: pd.DataFrame, *, deepest: int = 10) -> pd.DataFrame:
    """Mean query length of the searches whose first click fell on each rank: Figure 2.4.

    Columns: rank (`deepest + 1` holds all below), searches, mean, low, high. Ranks without one are left out.
    """
    clicked = searches[searches["rank"].notna() & searches["length"].notna()]
    ranks = np.minimum(clicked["rank"].to_numpy(dtype=np.int64), deepest + 1)
    found = []
    for rank in range(1, deepest + 2):
        part = clicked[ranks == rank]
        if len(part):
            one = estimate_length(part)
            found.append((rank, one.count, one.mean, one.low, one.high))
    return build_frame(found, columns=["rank", "searches", "mean", "low", "high"])


def measure_distances(rows: pd.DataFrame) -> Floats:
    """Kilometres along the great circle from the user to each item, row by row: Figure 1.2.

    NaN where either position is missing, and everywhere in a log without positions.
    """
    if not all(name in rows for name in ("focus_lat", "focus_lon", "lat", "lon")):
        return np.full(len(rows), np.nan)
    return great_circle_km(*(_as_numbers(rows[name]) for name in ("focus_lat", "focus_lon", "lat", "lon")))


def split_lengths(
    searches: pd.DataFrame, unsuccessful: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """The searches with a click and those that failed, as tables with length and session: Figures 1.5, 1.6.

    `unsuccessful` holds searches that are not among the rows (search_id, query); one that is in both counts
    once. Where a log says `outcome`, as the join does, only "failed" is a failure: a prefix that someone
    typed on from, or a search whose actions could not be used, is in neither table. Rows without `outcome`
    do not tell these apart from failures: then all searches without a click are in the second table, and
    `name_unclicked` has the word for it.
    """
    pandas = need_pandas()
    kept = ["search_id", "session_id", "length", "located"]
    known = searches[searches["length"].notna()]
    parts = [known[known["rank"].isna() & _is_failure(known)][kept]]
    if unsuccessful is not None and "query" in unsuccessful and SEARCH_ID in unsuccessful:
        more = unsuccessful[_is_failure(unsuccessful)].drop_duplicates("search_id")
        more = more.assign(
            length=_measure_text(more),
            located=_find_located(more),
            session_id=_name_sessions(more),
        )
        parts.append(more[more["length"].notna() & ~more[SEARCH_ID].isin(searches[SEARCH_ID])][kept])
    full = [part for part in parts if len(part)] or parts[:1]
    failed = pandas.concat(full, ignore_index=True)
    return {"successful": known[known["rank"].notna()][kept], "failed": failed}


def name_unclicked(searches: pd.DataFrame) -> str:
    """What the second table of `split_lengths` holds: "failed", or only "without a click".

    Searches that are given apart are failures; those among the rows are known to be if the log says so.
    """
    told = "outcome" in searches or searches["rank"].notna().all()
    return "failed" if told else "without a click"


def count_abandoned(searches: pd.DataFrame, unsuccessful: pd.DataFrame | None = None) -> int | None:
    """How many searches were typed on from and found later, among the rows or apart; None if none says."""
    tables = [each for each in (searches, unsuccessful) if each is not None and "outcome" in each]
    found: set[Any] = set()
    for table in tables:
        found |= set(table.loc[table["outcome"] == "abandoned", "search_id"])
    return len(found) if tables else None


def compare_groups(searches: pd.DataFrame, by: str) -> pd.DataFrame:
    """Each group's searches, clicks, MRR and query length, with intervals; the largest group first.

    Columns: group, searches, share, clicked (share of searches with a click), mrr, mrr_low, mrr_high (over
    searches with a click), length, length_low, length_high. Intervals take sessions as what was drawn.
    """
    groups = name_groups(searches[by], 12)
    found = []
    for name in order_groups(groups):
        part = searches[groups == name]
        mrr = estimate_mrr(part)
        length = estimate_length(part)
        found.append(
            {
                "group": name, "searches": len(part), "share": len(part) / len(searches),
                "clicked": float(part["rank"].notna().mean()), "mrr": mrr.mean, "mrr_low": mrr.low,
                "mrr_high": mrr.high, "length": length.mean, "length_low": length.low,
                "length_high": length.high,
            }
        )  # fmt: skip
    columns = ["group", "searches", "share", "clicked", "mrr", "mrr_low", "mrr_high"]
    return build_frame(found, columns=[*columns, "length", "length_low", "length_high"])


def count_weeks(rows: pd.DataFrame, *, top: int = 10, zone: str = "UTC") -> pd.DataFrame:
    """Clicks of the most clicked items in each week, which begins on Monday: Figure 1.4.

    Columns: item_id, name, week (its Monday), clicks, share (of all clicks of that week). Items come with the
    most clicked first, ties by id; every week from the first to the last is there, with NaN for a share
    of no clicks. Empty without times or clicks.
    """
    pandas = need_pandas()
    columns = ["item_id", "name", "week", "clicks", "share"]
    hits = rows[(rows[LABEL] > 0) & rows[TIME].notna()] if TIME in rows else rows.head(0)
    if not len(hits):
        return build_frame([], columns)
    day = to_zone(hits[TIME], zone).dt.normalize()
    week = day - pandas.to_timedelta(day.dt.weekday, unit="D")
    weeks = pandas.date_range(week.min(), week.max(), freq="7D")
    totals = week.value_counts().reindex(weeks, fill_value=0)
    sizes = hits[ITEM_ID].value_counts().rename_axis("id").reset_index(name="clicks")
    chosen = sizes.sort_values(["clicks", "id"], ascending=[False, True])["id"].head(top)
    names = hits.drop_duplicates("item_id", keep="last").set_index("item_id")
    found = []
    for item in chosen:
        counts = week[hits[ITEM_ID] == item].value_counts().reindex(weeks, fill_value=0)
        name = names["name"].get(item) if "name" in names else None
        shown = str(name) if isinstance(name, str) and name else str(item)
        found += [
            {"item_id": item, "name": shown, "week": monday, "clicks": int(counts[monday]),
             "share": take_share(counts[monday], totals[monday])}
            for monday in weeks
        ]  # fmt: skip
    return build_frame(found, columns=columns)


def count_hours(searches: pd.DataFrame, *, zone: str = "UTC") -> Ints:
    """Searches by weekday (Monday first) and hour, `[7, 24]`; those without a time are in no cell."""
    known = searches[TIME].dropna()
    counts = np.zeros((7, 24), dtype=np.int64)
    if len(known):
        local = to_zone(known, zone)
        np.add.at(counts, (local.dt.weekday.to_numpy(), local.dt.hour.to_numpy()), 1)
    return counts


# -- parts --------------------------------------------------------------------------------------------


def to_zone(time: pd.Series, zone: str) -> pd.Series:
    """UTC times as the clocks of a zone show them."""
    local: pd.Series = time.dt.tz_localize("UTC").dt.tz_convert(need_zone(zone)).dt.tz_localize(None)
    return local


def name_groups(values: pd.Series, most: int) -> AnyArray:
    """Each value's group as text: nothing and "" are one, what comes after the `most` largest another."""
    text = values.astype(object).where(values.notna(), NONE).astype(str).replace("", NONE)
    counts = text.value_counts().rename_axis("group").reset_index(name="rows")
    largest = counts.sort_values(["rows", "group"], ascending=[False, True])["group"]
    kept = set(largest if len(largest) <= most + 1 else largest.head(most))
    return text.where(text.isin(kept), OTHER).to_numpy(dtype=object)


def order_groups(groups: AnyArray) -> list[str]:
    """The names of groups, the largest first and the pooled rest last."""
    names, counts = np.unique(groups.astype(str), return_counts=True)
    ranked = sorted(zip(names.tolist(), counts.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
    return sorted((name for name, _ in ranked), key=lambda name: name == OTHER)


def _name_sessions(frame: pd.DataFrame) -> AnyArray:
    """The session of each search; a search without one is a session of its own."""
    if SESSION_ID not in frame:
        return frame[SEARCH_ID].to_numpy()
    return frame[SESSION_ID].where(frame[SESSION_ID].notna(), frame[SEARCH_ID]).to_numpy()


def _read_times(column: pd.Series) -> pd.Series:
    """Times in UTC without a zone; texts and objects are read one by one, NaT where they are none."""

    def read(value: Any) -> Any:
        try:
            return as_utc(value)
        except ValueError:
            return None

    if column.dtype.kind != "M":
        column = column.map(read, na_action="ignore")
    times: pd.Series = need_pandas().to_datetime(column, utc=True).dt.tz_localize(None)
    return times


def _is_failure(frame: pd.DataFrame) -> Any:
    return frame["outcome"] == "failed" if "outcome" in frame else np.ones(len(frame), dtype=np.bool_)


def _measure_text(frame: pd.DataFrame) -> Floats:
    if "query" not in frame:
        return np.full(len(frame), np.nan)
    query = frame["query"]
    length: Any = query.astype(str).str.len().where(query.notna())
    return np.asarray(length, dtype=np.float64)


def _find_located(frame: pd.DataFrame) -> Floats:
    if "focus_lat" not in frame or "focus_lon" not in frame:
        return np.full(len(frame), np.nan)
    lat, lon = _as_numbers(frame["focus_lat"]), _as_numbers(frame["focus_lon"])
    return (~np.isnan(lat) & ~np.isnan(lon)).astype(np.float64)


def _as_numbers(column: pd.Series) -> Floats:
    numbers = need_pandas().to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(numbers, dtype=np.float64)


def _as_frame(rows: Any, pandas: Any) -> pd.DataFrame:
    if hasattr(rows, "to_pandas"):
        rows = rows.to_pandas()
    if isinstance(rows, pandas.DataFrame | Mapping):
        return build_frame(rows)
    raise BadInput(f"rows must be a pandas or Arrow table or a dict of columns. Got {type(rows).__name__}.")


def take_share(part: Any, whole: Any) -> float:
    """part / whole; NaN where there is no whole."""
    return float(part / whole) if whole else math.nan


def build_frame(data: Any, columns: list[str] | None = None) -> pd.DataFrame:
    """A pandas table of rows or columns."""
    made: pd.DataFrame = need_pandas().DataFrame(data, columns=columns)
    return made


def need_pandas() -> Any:
    """The pandas module, or how to install it."""
    return need_library("pandas", "reading a log")


def weigh_sections(rows: pd.DataFrame, by: str = "type", *, most: int = 8) -> tuple[pd.DataFrame, float]:
    """What each type is shown and clicked, over the whole list and within its own section; §6.2.2.

    Columns: group, shown, clicked, shown_share, clicked_share, rate (clicked/shown), lift (the one share over
    the other), lists (searches that show it), first (share of these in which it stands at the very top),
    mrr (of its clicked items, by position), mrr_within (by place among the items of its type),
    top_first and top_later: how often the first item of the section is clicked where the section stands at
    the top of the list and where another one does. A difference between the last two is what presentation
    bias looks like, though better items on top look the same. The second value is the share of lists with
    two types or more in which each type's items stand together; NaN without such a list.
    """
    pandas = need_pandas()
    codes = pandas.factorize(rows[SEARCH_ID], sort=False)[0]
    order = np.lexsort((rows[POSITION].to_numpy(), codes))
    codes = codes[order]
    groups = name_groups(rows[by], most)[order]
    position = rows[POSITION].to_numpy(dtype=np.float64)[order]
    hit = (rows[LABEL] > 0).to_numpy()[order]
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.zeros(0, np.int64)
    kinds = pandas.factorize(groups)[0]
    frame = pandas.DataFrame({"search": codes, "kind": kinds, "hit": hit})
    within = frame.groupby(["search", "kind"]).cumcount().to_numpy() + 1
    on_top = kinds == kinds[starts][codes] if len(codes) else np.zeros(0, bool)
    found = []
    for name in order_groups(groups):
        own = groups == name
        top = own & (within == 1)
        chosen = own & hit
        found.append(
            {
                "group": name, "shown": int(own.sum()), "clicked": int(chosen.sum()),
                "shown_share": float(own.mean()), "clicked_share": take_share(chosen.sum(), hit.sum()),
                "rate": float(hit[own].mean()), "lists": int(top.sum()),
                "first": float(on_top[top].mean()),
                "mrr": _mean(1.0 / position[chosen]), "mrr_within": _mean(1.0 / within[chosen]),
                "top_first": _mean(hit[top & on_top]), "top_later": _mean(hit[top & ~on_top]),
            }
        )  # fmt: skip
    table = pandas.DataFrame(found)
    if len(table):
        table["lift"] = table["clicked_share"] / table["shown_share"]
    return table, _find_grouped(codes, kinds)


def _find_grouped(codes: AnyArray, kinds: AnyArray) -> float:
    """The share of lists with two kinds or more in which a kind never comes back."""
    if not len(codes):
        return math.nan
    pairs = np.unique(np.stack([codes, kinds], axis=1), axis=0)[:, 0]
    distinct = np.bincount(pairs)
    same = codes[1:] == codes[:-1]
    changes = np.bincount(codes[1:][same & (kinds[1:] != kinds[:-1])], minlength=len(distinct))
    mixed = distinct >= 2
    return _mean((changes == distinct - 1)[mixed])


def _mean(values: AnyArray) -> float:
    return float(np.mean(values)) if len(values) else math.nan
