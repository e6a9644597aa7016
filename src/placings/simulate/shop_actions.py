"""The generated shop log as two logs, searches and actions, with carts and purchases."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.random import Generator, SeedSequence

from placings.core import AnyArray, BadInput, Floats, Ints
from placings.logs import Form, join_logs, nest_results, write_log_tables
from placings.simulate.shop_log import ShopLog

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SESSION_GAP = 600_000_000  # microseconds: the next search of a region and platform within ten minutes …
SAME_PERSON = 0.3  # … is the same person's so often
BROKEN = ("doubled", "orphaned", "late", "early", "not shown")


@dataclass(frozen=True, eq=False)
class ShopActions:
    """A shop's searches, with the lists nested in `results`, and the actions on them, in the order of time.

    `broken` counts the events that were made wrong on purpose, by kind.
    """

    searches: pa.Table = field(repr=False)
    actions: pa.Table = field(repr=False)
    features: tuple[str, ...]
    broken: dict[str, int]

    def write(self, folder: str | PathLike[str], form: Form = "parquet") -> list[Path]:
        """Write `searches` and `actions` into a folder, as parquet, jsonl or jsonl.gz."""
        return write_log_tables({"searches": self.searches, "actions": self.actions}, folder, form)

    def to_rows(self, *, unsuccessful: Literal["report", "negatives"] = "report") -> pd.DataFrame:
        """The rows table that `join_logs` makes, which leaves broken events out. Needs the extra `logs`."""
        with join_logs(self.searches, self.actions, unsuccessful=unsuccessful) as joined:
            return joined.rows


def make_shop_actions(log: ShopLog, *, broken: float = 0.0) -> ShopActions:
    """Split a shop log into searches and actions: clicks, of some of them carts, of some carts purchases.

    `P(cart | click) = σ(−0.9 + 0.5 · (rating − 3) + 0.5 · [discounted] − 0.2 · (delivery_days − 3))` and
    `P(purchase | cart) = σ(0.2 + 0.5 · (rating − 3))`; what is missing adds nothing. The shop keeps no
    engine score, so `score` is null. `broken` is the share of the actions that is made wrong, evenly by kind:
    doubled, of a search that nobody knows, two days late, before its search, on an item that was not shown.
    The log's own seed draws all of it.

    >>> from placings.simulate.shop_log import make_shop_log
    >>> shop = make_shop_actions(make_shop_log(3, searches=40, random_state=0))
    >>> sorted(shop.actions["action"].unique().to_pylist())
    ['cart', 'click', 'purchase']
    """
    if not 0.0 <= broken <= 0.5:
        raise BadInput(f"broken must lie between 0 and 0.5. Got {broken!r}.")
    rng = np.random.default_rng(SeedSequence(log.seed, spawn_key=(7,)))  # 0 to 5 draw the log
    begins = _find_lists(log.table)
    searches = _make_searches(rng, log, begins)
    drawn = _draw_actions(rng, log, begins)
    counts = _break_actions(rng, drawn, broken)
    return ShopActions(searches, _make_actions(drawn), log.features, counts)


def _find_lists(table: pa.Table) -> Ints:
    """Where each search begins `[searches]`; rows of a search stand together."""
    search = table["search_id"].to_numpy()
    return np.flatnonzero(np.diff(search, prepend=search[:1] - 1)).astype(np.int64)


def _make_searches(rng: Generator, log: ShopLog, begins: Ints) -> pa.Table:
    import pyarrow as pa

    table = log.table
    of_search = table.take(pa.array(begins))
    sizes = np.diff(begins, append=table.num_rows)
    nothing = [None] * len(begins)
    items = {
        "item_id": table["item"].combine_chunks(),
        "position": table["position"].combine_chunks(),
        "score": pa.nulls(table.num_rows, pa.float64()),
        "category": table["category"].combine_chunks(),
        **{name: table[name].combine_chunks() for name in log.features},
    }
    return pa.table(
        {
            "search_id": pa.array([_name_search(each) for each in of_search["search_id"].to_pylist()]),
            "session_id": _draw_sessions(rng, of_search),
            "time": of_search["time"],
            "query": of_search["query"],
            "focus_lat": pa.array(nothing, pa.float64()),
            "focus_lon": pa.array(nothing, pa.float64()),
            "target": pa.array(nothing, pa.string()),
            "platform": of_search["platform"],
            "surface": pa.array(nothing, pa.string()),
            "region": of_search["region"],
            "results": nest_results(sizes, items),
        }
    )


def _name_search(number: int) -> str:
    return f"q{number:07d}"


def _draw_sessions(rng: Generator, of_search: pa.Table) -> pa.Array:
    """Sessions: searches of one region and platform, one soon after the other, are at times one person's."""
    import pyarrow as pa

    time = of_search["time"].to_numpy().astype("datetime64[us]").astype(np.int64)
    same = rng.random(len(time)) < SAME_PERSON
    last: dict[tuple[str, str], tuple[int, int]] = {}
    sessions = []
    regions, platforms = of_search["region"].to_pylist(), of_search["platform"].to_pylist()
    for row, key in enumerate(zip(regions, platforms, strict=True)):
        number, then = last.get(key, (-1, 0))
        if not (same[row] and number >= 0 and time[row] - then <= SESSION_GAP):
            number = row
        last[key] = (number, int(time[row]))
        sessions.append(f"u{number:07d}")
    return pa.array(sessions)


def _draw_actions(rng: Generator, log: ShopLog, begins: Ints) -> dict[str, AnyArray]:
    """Columns of the actions, by click, cart and purchase; times lie minutes behind the search."""
    table = log.table
    clicked = np.flatnonzero(table["click"].to_numpy())
    search = np.array([_name_search(each) for each in table["search_id"].to_numpy()[clicked]], dtype=object)
    item = np.array(table["item"].take(clicked).to_pylist(), dtype=object)
    time = table["time"].to_numpy()[clicked].astype("datetime64[us]").astype(np.int64)
    place = table["position"].to_numpy()[clicked]

    def take(name: str) -> Floats:
        values: Floats = table[name].to_numpy().astype(np.float64)[clicked]
        return values

    liking = 0.5 * np.nan_to_num(take("rating") - 3.0)
    haste = 0.2 * np.nan_to_num(take("delivery_days") - 3.0)
    carted = rng.random(len(clicked)) < _squash(-0.9 + liking + 0.5 * (take("discount") > 0) - haste)
    bought = carted & (rng.random(len(clicked)) < _squash(0.2 + liking))
    at_click = time + _wait(rng, 3.0 + 2.0 * place)
    at_cart = at_click + _wait(rng, np.full(len(clicked), 40.0))
    at_purchase = at_cart + _wait(rng, np.full(len(clicked), 240.0))
    every = np.ones(len(clicked), dtype=np.bool_)
    steps = (("click", every, at_click), ("cart", carted, at_cart), ("purchase", bought, at_purchase))
    columns = {
        "search_id": np.concatenate([search[chosen] for _, chosen, _ in steps]),
        "item_id": np.concatenate([item[chosen] for _, chosen, _ in steps]),
        "time": np.concatenate([at[chosen] for _, chosen, at in steps]),
        "action": np.concatenate([np.full(int(c.sum()), name, dtype=object) for name, c, _ in steps]),
    }
    return _order(columns)


def _break_actions(rng: Generator, columns: dict[str, AnyArray], share: float) -> dict[str, int]:
    """Make a share of the actions wrong, in place (the columns are ours), and count each kind."""
    total = len(columns["time"])
    chosen = rng.permutation(total)[: round(share * total)]
    parts = dict(zip(BROKEN, np.array_split(chosen, len(BROKEN)), strict=True))
    for name, rows in parts.items():
        if name == "doubled":
            doubled = rows
        elif name == "orphaned":
            columns["search_id"][rows] = [f"lost{row:07d}" for row in rows]
        elif name == "late":
            columns["time"][rows] += 2 * 86_400_000_000
        elif name == "early":
            columns["time"][rows] -= 86_400_000_000
        else:
            columns["item_id"][rows] = "item 99999"
    for name, values in columns.items():
        columns[name] = np.concatenate([values, values[doubled]])
    columns.update(_order(columns))
    return {name: len(rows) for name, rows in parts.items()}


def _order(columns: dict[str, AnyArray]) -> dict[str, AnyArray]:
    order = np.argsort(columns["time"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def _make_actions(columns: dict[str, AnyArray]) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "search_id": pa.array(columns["search_id"], pa.string()),
            "item_id": pa.array(columns["item_id"], pa.string()),
            "time": pa.array(columns["time"].view("datetime64[us]")),
            "action": pa.array(columns["action"], pa.string()),
        }
    )


def _squash(values: Floats) -> Floats:
    squashed: Floats = 1.0 / (1.0 + np.exp(-values))
    return squashed


def _wait(rng: Generator, seconds: AnyArray) -> Ints:
    """Microseconds: gamma with that mean, at most four times as long."""
    drawn = np.minimum(rng.gamma(4.0, 0.25, len(seconds)), 4.0) * seconds
    return (drawn * 1e6).astype(np.int64)
