"""How often an item was clicked before: what a log knows that no field of the item does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Ints, need_library
from placings.logs.schema import SESSION_ID

if TYPE_CHECKING:
    import pandas as pd

PAST = "past_clicks"


def add_past_clicks(rows: pd.DataFrame, clicked: pd.DataFrame, *, keep: bool = False) -> pd.DataFrame:
    """The rows with a column `past_clicks`: how often the item had been clicked before the row's search.

    `clicked` are rows of searches (`item_id`, `time`, `label`); those with a label above 0 count, each from
    the moment after its own search on. A click never counts for its own search, nor for an earlier one, so
    nothing comes from the future. Where both tables have a `session_id`, a click never counts for a search of
    its own session either: `carry_clicks` gives labels to other searches of a session, and a count that held
    the click would tell them. A click without an item or a time counts nowhere; a row without a time has 0.
    With `keep=True` a `past_clicks` that a row has already stays: it is what a service showed its
    model, which knew a click some seconds after it was made, not from the time of its search on.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"item_id": ["a", "a", "b"], "label": [1.0, 1.0, 0.0],
    ...                     "time": pd.to_datetime(["2024-05-01", "2024-05-02", "2024-05-03"])})
    >>> add_past_clicks(log, log)["past_clicks"].tolist()
    [0.0, 1.0, 0.0]
    >>> log = log.assign(session_id=["s", "s", "t"])
    >>> add_past_clicks(log, log)["past_clicks"].tolist()
    [0.0, 0.0, 0.0]
    """
    wins = clicked[_take(clicked, "label") > 0]
    wins = wins[_take(wins, "item_id").notna() & _take(wins, "time").notna()]
    items = number_names(name_ids(_take(rows, "item_id")), name_ids(wins["item_id"]))
    when, asked = read_times(wins), read_times(rows)
    counts = _count_before(items[0], asked, items[1], when)
    if SESSION_ID in rows and SESSION_ID in wins:
        sessions = number_names(name_ids(rows[SESSION_ID]), name_ids(wins[SESSION_ID]))
        codes, ids = number_pairs(sessions, items)
        counts -= _count_before(codes, asked, ids, when)
    if keep and PAST in rows:
        served = rows[PAST].to_numpy(dtype=np.float64)
        counts = np.where(np.isnan(served), counts, served)
    return rows.assign(**{PAST: counts})


def count_clicks(rows: pd.DataFrame) -> dict[str, int]:
    """How often each item was clicked in all; items never clicked are left out."""
    wins = rows.loc[rows["label"] > 0, "item_id"]
    return {str(item): int(count) for item, count in wins.value_counts(sort=False).items()}


def continue_clicks(rows: pd.DataFrame) -> dict[str, int]:
    """How often each item was clicked in all, by a log that a service wrote.

    Such a log says in `past_clicks` what came before it: an item's count is what its first showing with such
    a value says, and the clicks from then on. Other items are counted as `count_clicks` does.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"item_id": ["a", "a", "b"], "label": 1.0, "past_clicks": [7.0, 8.0, None],
    ...                     "time": pd.to_datetime(["2024-05-01", "2024-05-02", "2024-05-03"])})
    >>> continue_clicks(log)
    {'a': 9, 'b': 1}
    """
    counts = count_clicks(rows)
    if PAST not in rows or "time" not in rows:
        return counts
    served = rows[rows[PAST].notna() & rows["time"].notna()]
    first = served.loc[served.groupby("item_id", sort=False)["time"].idxmin(), ["item_id", "time", PAST]]
    wins = rows.loc[rows["label"] > 0, ["item_id", "time"]].merge(
        first, on="item_id", suffixes=("", "_first")
    )
    since = count_clicks(wins[wins["time"] >= wins["time_first"]].assign(label=1.0))
    for item, before in zip(first["item_id"].astype(str), first[PAST], strict=True):
        total = int(before) + since.get(item, 0)
        if total:
            counts[item] = total
    return counts


def look_up_clicks(items: list[str], counts: Mapping[str, int]) -> Floats:
    """The clicks of each item; 0 for those never clicked."""
    return np.array([counts.get(item, 0) for item in items], dtype=np.float64)


def carry_clicks(clicked: pd.DataFrame, unclicked: pd.DataFrame) -> pd.DataFrame:
    """Unclicked searches labelled with what their session clicked later, where their list held it.

    `clicked` are rows of the same sessions; those with a label above 0 count, from lists of any length.
    People type on until they see what they mean: a list that held it, unnoticed or too far down, says as much
    as the one that was clicked, and with both together the engine's first ranks are favoured less.
    """
    if not len(unclicked) or "session_id" not in unclicked or "time" not in unclicked:
        return unclicked.iloc[:0]
    wins = clicked.loc[clicked["label"] > 0, ["session_id", "item_id", "time"]]
    last = wins.groupby(["session_id", "item_id"], sort=False)["time"].max()
    keys = list(zip(unclicked["session_id"].tolist(), unclicked["item_id"].tolist(), strict=True))
    known = last.to_dict()
    later = np.array(
        [key in known and when < known[key] for key, when in zip(keys, unclicked["time"], strict=True)]
    )
    rows = unclicked.assign(label=later.astype(np.float64))
    kept = rows.groupby("search_id", sort=False)["label"].transform("max") > 0
    return rows[kept].reset_index(drop=True)


def _take(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name not in table:
        raise BadInput(
            f"past clicks need a column {name}. Got {', '.join(map(str, table.columns)) or 'none'}."
        )
    return table[name]


def read_times(table: pd.DataFrame) -> Ints:
    """Microseconds; the earliest number there is where no time is given."""
    times = _take(table, "time")
    if times.dtype.kind != "M":
        raise BadInput(
            f"time must hold times (datetime64). Got {times.dtype}. pandas.to_datetime makes them."
        )
    if getattr(times.dt, "tz", None) is not None:
        times = times.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(times.to_numpy().astype("datetime64[us]").astype(np.int64))


def name_ids(column: pd.Series[Any]) -> AnyArray:
    """Ids as texts, None where one is missing; whole numbers with gaps, which pandas makes floats, as whole.

    >>> import pandas as pd
    >>> name_ids(pd.Series([7.0, None])).tolist(), name_ids(pd.Series(["7", "u"])).tolist()
    (['7', None], ['7', 'u'])
    """
    pandas = need_library("pandas", "past clicks")
    codes, values = pandas.factorize(column)
    texts = [
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value) for value in values
    ]
    found: AnyArray = np.array([*texts, None], dtype=object)[codes]  # -1, which is missing, takes the last
    return found


def number_names(asked: AnyArray, clicked: AnyArray) -> tuple[Ints, Ints]:
    """Both lists of names as numbers; -1 is one that is missing, or that was asked for and never clicked."""
    pandas = need_library("pandas", "past clicks")
    codes: Ints = pandas.factorize(np.concatenate([clicked, asked]))[0].astype(np.int64)
    ids, codes = codes[: len(clicked)], codes[len(clicked) :]
    known = int(ids.max(initial=-1)) + 1  # numbered as they appear, so the clicked ones come first
    return np.where(codes < known, codes, -1), ids


def number_pairs(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Pairs of two numberings, each (asked, clicked), as one such numbering; -1 where either is."""
    width = int(other[1].max(initial=-1)) + 1
    asked, clicked = (
        np.where((first >= 0) & (second >= 0), first * width + second, -1)
        for first, second in zip(one, other, strict=True)
    )
    codes, ids = number_names(asked, clicked)
    return np.where(asked >= 0, codes, -1), np.where(clicked >= 0, ids, -1)


def _count_before(codes: Ints, asked: Ints, ids: Ints, when: Ints) -> Floats:
    """For each row the clicks of its number strictly before its time; numbers below 0 have none."""
    ids, when = ids[ids >= 0], when[ids >= 0]
    moments, ranks = np.unique(np.concatenate([when, asked]), return_inverse=True)
    span = len(moments) + 1  # a number for item and moment together sorts by both
    keys = np.sort(ids * span + ranks[: len(when)])
    sought, first = codes * span + ranks[len(when) :], codes * span
    counts = np.searchsorted(keys, sought, side="left") - np.searchsorted(keys, first, side="left")
    return np.where(codes >= 0, counts, 0).astype(np.float64)
