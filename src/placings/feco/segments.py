"""Segments that a log does not name itself: head and tail queries, old and new items, days since a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, UnknownName
from placings.data import need_ibis, opened
from placings.feco.baselines import parse_time
from placings.feco.score import coverage
from placings.feco.windows import read_seconds

if TYPE_CHECKING:
    import pandas as pd

BANDS = ("head", "torso", "tail")
DAY = 86_400


def label_head_tail(
    table: Any,
    *,
    query: str,
    event: str | None = None,
    shares: tuple[float, float] = (0.5, 0.8),
    into: str = "band",
) -> Any:
    """The table with a column that says whether a row's query is of the head, the torso or the tail.

    Queries are counted (rows, or distinct events where `event` is named) and sorted from the most frequent
    on. A query is head if the queries more frequent than it make up less than `shares[0]` of all traffic,
    torso if less than `shares[1]`, else tail. Equally frequent queries share a band, whatever their order. A
    missing query is a missing band and is not counted.

    An Ibis table gives an Ibis expression on the same engine, everything else a pandas table.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"query": ["shoes"] * 6 + ["shirt"] * 3 + ["left-handed kettle"]})
    >>> label_head_tail(log, query="query").groupby("query")["band"].first().to_dict()
    {'left-handed kettle': 'tail', 'shirt': 'torso', 'shoes': 'head'}
    """
    low, high = shares
    if not 0.0 < low <= high <= 1.0:
        raise BadInput(f"shares must be two shares of traffic, the smaller first. Got {shares!r}.")

    def build(rows: Any) -> Any:
        import ibis

        _check_columns(rows, query, event)
        known = rows.filter(rows[query].notnull())
        count = known.count() if event is None else known[event].nunique()
        queries = known.group_by(query).aggregate(_times=count)
        sizes = queries.group_by("_times").aggregate(_all=queries["_times"].sum())
        order = ibis.cumulative_window(order_by=ibis.desc(sizes["_times"]))
        above = sizes["_all"].sum().over(order) - sizes["_all"]
        total = sizes["_all"].sum().over(ibis.window())
        ranked = sizes.mutate(_share=above / total)
        band = ibis.cases((ranked["_share"] < low, "head"), (ranked["_share"] < high, "torso"), else_="tail")
        bands = queries.join(ranked.mutate(**{into: band}), "_times")
        bands = bands.select(_query=bands[query], _band=bands[into])
        joined = rows.left_join(bands, rows[query] == bands["_query"])
        return joined.select(*[rows[name] for name in rows.columns if name != into], **{into: bands["_band"]})

    return _apply(table, build)


def label_ages(
    table: Any,
    *,
    time: str,
    first_seen: str,
    new_days: int = 30,
    new_since: Any = None,
    into: str = "age",
) -> Any:
    """The table with a column that says whether a row's item was old or new.

    New is what was first seen less than `new_days` days before the row's `time`: items grow old as the log
    goes on. With `new_since`, a date, new is what was first seen from then on, and stays so: two fixed
    groups to follow over time. A missing `first_seen` is a missing age.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"time": pd.to_datetime(["2024-03-01", "2024-03-01"]),
    ...                     "first_seen": pd.to_datetime(["2024-02-20", "2023-01-01"])})
    >>> label_ages(log, time="time", first_seen="first_seen")["age"].tolist()
    ['new', 'old']
    """
    if isinstance(new_days, bool) or not isinstance(new_days, int | np.integer) or new_days < 1:
        raise BadInput(f"new_days must be a whole number of days of at least 1. Got {new_days!r}.")
    limit = None if new_since is None else int(parse_time(new_since, "new_since").timestamp())

    def build(rows: Any) -> Any:
        import ibis

        _check_columns(rows, time, first_seen)
        begun = read_seconds(rows[first_seen])
        new = begun >= limit if limit is not None else read_seconds(rows[time]) - begun < new_days * DAY
        return rows.mutate(**{into: ibis.cases((new, "new"), (~new, "old"))})

    return _apply(table, build)


def label_days_since(
    table: Any,
    *,
    time: str,
    launched: str | None = None,
    of: str | None = None,
    bin_days: int = 7,
    most: int | None = None,
    into: str = "days_since_launch",
) -> Any:
    """The table with the days from a launch to the row's time, rounded down to a multiple of `bin_days`.

    `launched` names a column with the launch (an item's first day). `of` names a column such as a region, and
    the launch of each value is its first row in the table; values that are there on the table's first day
    were launched before it, so their days are not known and missing. `most` makes days beyond it missing.
    Rows before their launch are missing too.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"time": pd.to_datetime(["2024-03-01", "2024-03-12"]), "launch": "2024-02-28"})
    >>> log["launch"] = pd.to_datetime(log["launch"])
    >>> label_days_since(log, time="time", launched="launch")["days_since_launch"].tolist()
    [0, 7]
    """
    if (launched is None) == (of is None):
        raise BadInput("name one of launched (a column of dates) and of (a column such as region).")
    if isinstance(bin_days, bool) or not isinstance(bin_days, int | np.integer) or bin_days < 1:
        raise BadInput(f"bin_days must be a whole number of days of at least 1. Got {bin_days!r}.")

    def build(rows: Any) -> Any:
        import ibis

        _check_columns(rows, time, launched, of)
        now = read_seconds(rows[time])
        if launched is not None:
            days = (now - read_seconds(rows[launched])).floordiv(DAY)
            known = days >= 0
        else:
            dated = rows.mutate(_now=now)
            first = dated["_now"].min().over(ibis.window(group_by=of)).floordiv(DAY)
            begin = dated["_now"].min().over(ibis.window()).floordiv(DAY)
            dated = dated.mutate(_first=first, _begin=begin)
            rows = dated
            days = dated["_now"].floordiv(DAY) - dated["_first"]
            known = dated["_first"] > dated["_begin"]
        if most is not None:
            known &= days <= most
        value = (days.floordiv(bin_days) * bin_days).cast("int64")
        made = rows.mutate(**{into: ibis.cases((known, value))})
        return made.drop("_now", "_first", "_begin") if launched is None else made

    return _apply(table, build)


def compare_ages(
    table: Any,
    features: Sequence[str] | str | None = None,
    *,
    time: str,
    first_seen: str,
    new_days: int = 30,
    new_since: Any = None,
    window: str = "1w",
    **settings: Any,
) -> pd.DataFrame:
    """Coverage of old against new items over time, as a coverage frame by `age`: the paper's Figure 3.

    `settings` go to `coverage`; see `label_ages` for who is new. Items whose first day is not known are left
    out.
    """
    with opened(table) as source:
        labelled = label_ages(
            source.table, time=time, first_seen=first_seen, new_days=new_days, new_since=new_since
        )
        known = labelled.filter(labelled["age"].notnull())
        return coverage(known, features, by="age", time=time, window=window, **settings).to_pandas()


def trace_launch(
    table: Any,
    features: Sequence[str] | str | None = None,
    *,
    time: str,
    launched: str | None = None,
    of: str | None = None,
    bin_days: int = 7,
    most: int | None = 90,
    by: str | Sequence[str] | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """Coverage against days since launch, of items (`launched`) or locations (`of`): the cold start.

    The frame has the columns feature, `by` (with `of`, that column unless `by` says otherwise),
    days_since_launch, coverage, low, high, events, covered, sorted by days: ready to draw.
    """
    into = "days_since_launch"
    names = ([of] if of else []) if by is None else [by] if isinstance(by, str) else list(by)
    with opened(table) as source:
        labelled = label_days_since(
            source.table, time=time, launched=launched, of=of, bin_days=bin_days, most=most
        )
        known = labelled.filter(labelled[into].notnull())
        if not len(source.ask(known.select(into).limit(1))):
            raise BadInput(
                "no row lies after a launch within the days asked for. Give a longer log or more days."
            )
        ignored = [time, *([launched] if launched else []), *settings.pop("ignore", ())]
        frame = coverage(known, features, by=[*names, into], ignore=ignored, **settings).to_pandas()
    frame[into] = frame[into].astype("int64")
    rank = {name: place for place, name in enumerate(dict.fromkeys(frame["feature"]))}
    order = frame.assign(_rank=frame["feature"].map(rank)).sort_values(["_rank", *names, into], kind="stable")
    return order.drop(columns="_rank").reset_index(drop=True)


def _check_columns(rows: Any, *names: str | None) -> None:
    for name in names:
        if name is not None and name not in rows.columns:
            raise UnknownName("column", name, rows.columns)


def _apply(table: Any, build: Any) -> Any:
    """Build on an Ibis table as it is; on anything else, run it and give pandas back."""
    ibis = need_ibis("segments of a log")
    if isinstance(table, ibis.expr.types.Table):
        return build(table)
    with opened(table) as source:
        return source.ask(build(source.table))
