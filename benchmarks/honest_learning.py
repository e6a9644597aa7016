"""SIMULATED: what learning gains when clicks are weighed by how likely their position was looked at.

    .venv/bin/python benchmarks/honest_learning.py                   # seeds 0 to 3, 12 to 15 minutes on two cores
    .venv/bin/python benchmarks/honest_learning.py --seeds 0-7 --out runs/honest --jobs 2
    .venv/bin/python benchmarks/honest_learning.py --quick           # one seed, small logs: does it run?

Logs of two worlds. Shop: the lists of `make_shop_log`; what a person wants is drawn from a formula over the
features and an item's unseen charm; the lists are shown as a ridge regression orders them that learned from
15 (weak) or 600 (strong) judged lists. Places: GeoNames' cities; people who type, the embedded engine's
lists, the place meant; shown in the engine's order (weak) or in that of a re-ranker that learned from the
places meant of another log (strong). In half of the lists one pair of neighbours among the first ten is
swapped. Clicks are drawn by a position model (on which the correction rests), and by trust, cascade and DBN
models, on which it does not.

On each log learn, from the same lists: *naive* (clicks are labels), *true* and *estimated* (`Reranker` with
propensities, true ones or those estimated from the swaps), *bare* (the weights of the true ones without the
re-ranker's safeguard) and an *oracle* (labels are what was wanted, in all lists, clicked or not). All are
judged on other lists by what was wanted. For clicks that follow no position model the "true" propensity is
the mean probability of a look at each position. Cells are kept in `--out`, so that a stopped run goes on.

Needs nothing but the development install.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from placings.core import keep_cell
from placings.logs import find_offsets
from placings.metrics import mrr, ndcg
from placings.simulate import PositionBased, make_shop_log, simulate_log

WORLDS, STRENGTHS = ("shop", "places"), ("weak", "strong")
MODELS = ("position", "trust", "cascade", "dbn")
RANKERS = ("lightgbm", "linear")
METHODS = ("naive", "true", "estimated", "bare", "oracle")
VERSION = 1  # of the cells
TEACHER = {"weak": 6, "strong": 300}  # judged lists that the shop's own order was learned from
SEED_OF_TEACHER = 5000  # the teacher's log has another seed than the log itself
DEPTH, SWAPPED = 10, 0.5  # the first ten; half of the lists hold a swapped pair


@dataclass(frozen=True)
class Size:
    """How many lists: of the log that is learned from, and of those that are judged."""

    shop: int = 8000
    places: int = 9000
    judged: int = 6000
    shown: int = 10
    k: int = 20
    rounds: int = 100


# -- worlds: lists with what is wanted ---------------------------------------------------------------


def make_shop(seed: int, lists: int, shown: int) -> pd.DataFrame:
    """Lists of a shop, unordered: `search_id`, `session_id`, `time`, `item_id`, features and `wanted`."""
    log = make_shop_log(10, searches=lists // 9, shown=shown + 2, random_state=seed)
    frame = log.to_pandas().rename(columns={"item": "item_id"})
    frame["wanted"] = draw_wishes(frame, np.random.default_rng([seed, 1]))
    frame["session_id"] = frame["search_id"]
    first = frame["search_id"].drop_duplicates().iloc[:lists]
    frame = frame[frame["search_id"].isin(first)]
    return frame.drop(columns=["position", "click", "arrival", "first_seen"]).reset_index(drop=True)


def draw_wishes(frame: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Whether each item is wanted, 0 or 1: a fifth of them, by what it is and by a charm that nobody logged."""
    items, codes = np.unique(frame["item_id"].to_numpy(), return_inverse=True)
    charm = rng.standard_normal(len(items))[codes]
    liking = (
        0.9 * np.log1p(frame["text_match"]) + 0.7 * frame["embedding_similarity"]
        + 0.6 * (frame["rating"] - 3.0).fillna(0.0) + 0.5 * (frame["discount"] > 0)
        - 0.3 * (frame["price"] - 3.0) + 0.15 * np.log1p(frame["review_count"]) + 0.4 * charm
    ).to_numpy()  # fmt: skip
    bar = np.quantile(liking, 0.93)
    return (rng.random(len(liking)) < 1.0 / (1.0 + np.exp(-3.0 * (liking - bar)))).astype(np.float64)


@lru_cache(maxsize=1)
def open_places() -> tuple[Any, Any]:
    """GeoNames' larger cities and the embedded engine that finds them."""
    from placings.places import SqliteEngine, build_index, read_geonames

    places = list(read_geonames(15000))
    folder = tempfile.mkdtemp(prefix="placings-honest-")
    return places, SqliteEngine(build_index(places, Path(folder) / "places.db"))


def make_places(seed: int, lists: int, k: int) -> pd.DataFrame:
    """Lists of place searches in the engine's order; `wanted` is 1 for the place meant."""
    places, engine = open_places()
    log = simulate_log(places, engine, lists, k=k, random_state=seed)
    frame = log.to_rows(unsuccessful="negatives").rename(columns={"is_target": "wanted"})
    return frame.drop(columns=["label", "kind"], errors="ignore").reset_index(drop=True)


# -- logs: an order that is shown, swaps, clicks ------------------------------------------------------


def show_lists(frame: pd.DataFrame, scores: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """The lists in the order of scores, a pair of neighbours swapped in half of them, as a service logs them.

    `engine_position` is what the features know, `position` where people see the item. Where the frame has an
    engine's order already (places), that stays `engine_position`.
    """
    found = frame.assign(ordered=-scores).sort_values(["search_id", "ordered"], kind="stable")
    found = found.drop(columns="ordered").reset_index(drop=True)
    offsets = find_offsets(found)
    sizes = np.diff(offsets)
    place = np.arange(len(found)) - np.repeat(offsets[:-1], sizes) + 1
    pairs = np.minimum(sizes, DEPTH) - 1
    swapped = np.where(
        (rng.random(len(sizes)) < SWAPPED) & (pairs > 0), (rng.random(len(sizes)) * pairs).astype(int) + 1, 0
    )
    upper = np.repeat(swapped, sizes)
    shown = place + (upper == place) - ((upper == place - 1) & (upper > 0))
    each = np.repeat(SWAPPED / np.maximum(pairs, 1), sizes)
    ends = np.repeat(np.minimum(sizes, DEPTH), sizes)
    beside = np.where(place > ends, 0, np.where((place == 1) | (place == ends), 1, 2))
    kept = np.where(ends > 1, 1.0 - beside * each, 1.0)
    found = found.assign(
        engine_position=found["position"] if "position" in found else place, position=shown, swapped=upper,
        shown_probability=np.where(shown == place, kept, each),
    )  # fmt: skip
    return found.sort_values(["search_id", "position"], kind="stable").reset_index(drop=True)


def draw_clicks(shown: pd.DataFrame, model: Any, rng: np.random.Generator) -> pd.DataFrame:
    """Clicks on lists as they are shown; a session of several searches ends with its first click."""
    offsets = find_offsets(shown)
    clicked = model.click_lists(shown["wanted"].to_numpy(), offsets, rng)
    log = shown.assign(label=clicked.astype(np.float64))
    if (log["session_id"] == log["search_id"]).all():
        return log
    done = log.loc[log["label"] > 0].groupby("session_id")["time"].min()
    return log[~(log["time"] > log["session_id"].map(done))].reset_index(drop=True)


def find_true_propensity(shown: pd.DataFrame, model: Any, most: int = 40) -> np.ndarray:
    """The mean probability of a look at each position, over that at the first `[most]`."""
    if isinstance(model, PositionBased) or hasattr(model, "trust"):
        return np.asarray(model.examination(most))
    offsets, wanted = find_offsets(shown), shown["wanted"].to_numpy()
    looks, counts = np.zeros(most), np.zeros(most)
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        seen = model.examination(stop - start, wanted[start:stop])[:most]
        looks[: len(seen)] += seen
        counts[: len(seen)] += 1
    known = counts > 0
    found = np.where(known, looks / np.maximum(counts, 1), np.nan)
    return np.asarray(pd.Series(found / found[0]).ffill().to_numpy())


def estimate_from_swaps(log: pd.DataFrame) -> np.ndarray:
    """`p_k / p_1` of the first ten positions from swapped neighbours, falling; `[DEPTH]`.

    Of pair k, clicks at k + 1 over clicks at k, with swapped and other lists counted alike: both items stand
    equally often above then, so what is left is how people look.
    """
    place = log["engine_rank"] if "engine_rank" in log else None
    position, upper, label = (log[name].to_numpy() for name in ("position", "swapped", "label"))
    del place
    ratios = []
    for k in range(1, DEPTH):
        counts = np.zeros(2)
        for below in (0, 1):
            here = position == k + below
            with_swap, without = here & (upper == k), here & (upper == 0)
            rates = [label[rows].mean() if rows.any() else 0.0 for rows in (with_swap, without)]
            counts[below] = sum(rates)
        ratios.append(min(counts[1] / counts[0], 1.0) if counts[0] > 0 and counts[1] > 0 else 1.0)
    return np.concatenate([[1.0], np.cumprod(ratios)])
