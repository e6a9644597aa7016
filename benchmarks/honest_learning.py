"""SIMULATED: what learning gains when clicks are weighed by how likely their position was looked at.

    .venv/bin/python benchmarks/honest_learning.py  # seeds 0 to 2, some 20 minutes of one core
    .venv/bin/python benchmarks/honest_learning.py --seeds 0-7 --out runs/honest --jobs 2
    .venv/bin/python benchmarks/honest_learning.py --quick  # one seed, small logs: does it run?

Logs of two worlds. Shop: the lists of `make_shop_log`; what a person wants is drawn from a formula over the
features and an item's unseen charm; the lists are shown as a ridge regression orders them that learned from
6 (weak) or 300 (strong) judged lists. Places: Karlsruhe's; people who type, the embedded engine's
lists, the place meant; shown in the engine's order (weak) or in that of a re-ranker that learned from the
places meant of another log (strong). In half of the lists one pair of neighbours among the first ten is
swapped. Clicks are drawn by a position model (on which the correction rests), and by trust, cascade and DBN
models, on which it does not.

On each log learn, from the same lists: *naive* (clicks are labels), *true* and *estimated* (as `Reranker`
does it with propensities, true ones or those estimated from the swaps), *bare* (the weights of the true
ones without the re-ranker's safeguard), on places with clicks of the position model *carried naive* and
*carried estimated* (a `Reranker` that labels unclicked lists with what their session clicked later), and an
*oracle* (labels are what was wanted, in all lists, clicked or not). All are judged on other lists by what was
wanted. A true propensity is the click model's own probability of a look at that row, given what stands above;
an estimated one knows the position alone. Cells are kept in `--out`, so that a stopped run goes on.

Needs `$PLACINGS_DATA/places` (default ../shared/data) for the places; without it there is the shop alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from placings.core import keep_cell
from placings.logs import estimate_propensity, find_offsets
from placings.metrics import mrr, ndcg
from placings.rankers import LightGBMRanker, LinearRanker, Ranker
from placings.rerank import Reranker, learn_debiased, steady_curve
from placings.simulate import (
    Cascade,
    DynamicBayesian,
    PositionBased,
    TrustBias,
    make_shop_log,
    simulate_log,
)

WORLDS, STRENGTHS = ("shop", "places"), ("weak", "strong")
MODELS = {"position": PositionBased, "trust": TrustBias, "cascade": Cascade, "dbn": DynamicBayesian}
RANKERS = ("lightgbm", "linear", "ranksvm")
METHODS = ("naive", "true", "estimated", "bare", "oracle")
CARRIED = ("carried naive", "carried estimated")  # places only, whose sessions have several searches
VERSION = 6  # of the cells
# lists of which all is known, that the order shown was learned from; the engine's own order needs none
TEACHER = {("shop", "weak"): 6, ("shop", "strong"): 300, ("places", "weak"): 0, ("places", "strong"): 2000}
SHARES = (0.0625, 0.125, 0.25, 0.5)  # of the log's sessions, for the curves
PLACES = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "places" / "places_karlsruhe.jsonl.gz"
SEED_OF_TEACHER = 5000  # the teacher's log has another seed than the log itself
DEPTH, SWAPPED = 10, 0.5  # the first ten; half of the lists hold a swapped pair


@dataclass(frozen=True)
class Size:
    """How many lists: of the log that is learned from, and of those that are judged."""

    shop: int = 8000
    places: int = 7000
    judged: int = 4000
    shown: int = 12  # items of a list, at most
    rounds: int = 60
    bag: int = 3


# -- worlds: lists with what is wanted ---------------------------------------------------------------


def make_shop(seed: int, lists: int, shown: int) -> pd.DataFrame:
    """Lists of a shop, unordered: `search_id`, `session_id`, `time`, `item_id`, features and `wanted`."""
    log = make_shop_log(10, searches=lists // 9, shown=shown, random_state=seed)
    frame = log.to_pandas().rename(columns={"item": "item_id"})
    frame["wanted"] = draw_wishes(frame, np.random.default_rng([seed, 1]))
    frame["session_id"] = frame["search_id"]
    first = frame["search_id"].drop_duplicates().iloc[:lists]
    frame = frame[frame["search_id"].isin(first)]
    return frame.drop(columns=["position", "click", "arrival", "first_seen"]).reset_index(drop=True)


def draw_wishes(frame: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Whether each item is wanted, 0 or 1: about one in ten, by what it is and by an unseen charm."""
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
def open_places() -> tuple[Any, Any, Any]:
    """Karlsruhe's stops, streets, addresses and sights, and the embedded engine that finds them."""
    from placings.places import SqliteEngine, build_index, read_places

    places = list(read_places(PLACES, zone="Europe/Berlin"))
    folder = tempfile.TemporaryDirectory(prefix="placings-honest-")  # goes with the process
    return places, SqliteEngine(build_index(places, Path(folder.name) / "places.db")), folder


def make_places(seed: int, lists: int, k: int) -> pd.DataFrame:
    """Lists of place searches in the engine's order; `wanted` is 1 for the place meant."""
    places, engine, _ = open_places()
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
        engine_position=found.get("position", pd.Series(place)), position=shown, swapped=upper,
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


def find_true_propensity(shown: pd.DataFrame, model: Any) -> np.ndarray:
    """The probability of a look at each row `[rows]`, given all that stands above it, by the model itself."""
    offsets, wanted = find_offsets(shown), shown["wanted"].to_numpy()
    if isinstance(model, PositionBased | TrustBias):
        return np.asarray(model.examination(int(shown["position"].max())))[shown["position"].to_numpy() - 1]
    parts = [
        model.examination(stop - start, wanted[start:stop]) for start, stop in pairwise(offsets.tolist())
    ]
    return np.maximum(np.concatenate(parts), 1e-6)


# -- learning ----------------------------------------------------------------------------------------


class Bag(Ranker):
    """Boosted trees of several seeds, their scores added up: one seed more or less moves MRR by 0.004."""

    def __init__(self, rounds: int = 60, bag: int = 3) -> None:
        self.rounds = rounds
        self.bag = bag

    def _weigh(self, train: Any) -> Any:
        return train, super()._weigh(train)[1]  # each weighs clicks itself

    def _fit(self, train: Any, valid: Any) -> None:
        self.rankers_ = [
            LightGBMRanker(
                rounds=self.rounds, learning_rate=0.1, early_stopping=None, debias=False, n_jobs=1,
                random_state=seed,
            ).fit(train)
            for seed in range(self.bag)
        ]  # fmt: skip

    def _score(self, X: Any) -> np.ndarray:
        return np.sum([each._score(X) for each in self.rankers_], axis=0)


def make_learner(kind: str, size: Size, weighed: bool = False) -> Any:
    """Boosted trees, or a linear ranker by pairs; no early stopping, so that all stop alike."""
    if kind == "lightgbm":
        return Bag(size.rounds, size.bag)
    if kind == "ranksvm":
        return LinearRanker("hinge")
    return LinearRanker("logistic", 10.0, pairs="mean")


def declare_features(world: str, rows: pd.DataFrame) -> Any:
    """The features that a `Reranker` has by default for such a log."""
    from placings.features import shop_features
    from placings.places import place_features

    return shop_features(rows.drop(columns="wanted")) if world == "shop" else place_features()


def learn_teacher(world: str, lists: pd.DataFrame) -> tuple[Any, Any]:
    """The features and the ranker of the order that is shown, from lists of which all is known."""
    from placings.features import shop_features
    from placings.places import place_features

    told = lists[lists.groupby("search_id")["wanted"].transform("max") > 0].reset_index(drop=True)
    if world == "shop":
        features = shop_features(told.drop(columns="wanted"), engine=False).fit(told)
        return features, LinearRanker("ridge").fit(features.to_ranking(told, "wanted"))
    features = place_features(history=False).fit(told)
    return features, LinearRanker("logistic", 10.0, pairs="mean").fit(features.to_ranking(told, "wanted"))


@dataclass(frozen=True, eq=False)
class ShownLists:
    """Lists as one policy showed them: the log's `rows` with their features, and the judged ones."""

    rows: pd.DataFrame  # `row` is the place of a row in `data`
    data: Any
    judged: pd.DataFrame
    test: Any


@dataclass(frozen=True, eq=False)
class World:
    """Lists with what is wanted, and how they are shown: one for each world and seed."""

    name: str
    seed: int
    size: Size
    lists: pd.DataFrame
    judged: pd.DataFrame
    teacher: pd.DataFrame
    kept: dict[str, ShownLists] = field(default_factory=dict)

    def show(self, strength: str) -> ShownLists:
        """The lists as a logging policy of this strength shows them; computed once."""
        if strength not in self.kept:
            frames = [
                self._order(strength, frame, number) for number, frame in enumerate((self.lists, self.judged))
            ]
            rows, judged = frames[0].assign(row=np.arange(len(frames[0]))), keep_lists(frames[1], "wanted")
            plain = hide_service(rows.drop(columns="row"))
            features = declare_features(self.name, plain).fit(plain)  # sees no label
            data, test = (features.to_ranking(each, "wanted") for each in (plain, hide_service(judged)))
            self.kept[strength] = ShownLists(rows, data, judged, test)
        return self.kept[strength]

    def _order(self, strength: str, frame: pd.DataFrame, number: int) -> pd.DataFrame:
        if self.name == "places" and strength == "weak":
            scores = -frame["position"].to_numpy(dtype=np.float64)
        else:
            ids = self.teacher["search_id"].drop_duplicates().iloc[: TEACHER[self.name, strength]]
            known = self.teacher[self.teacher["search_id"].isin(ids)].reset_index(drop=True)
            features, ranker = learn_teacher(self.name, known)
            scores = ranker.predict(features.to_ranking(frame, "wanted"))
        return show_lists(frame, scores, np.random.default_rng([self.seed, 7, number]))


def make_world(name: str, seed: int, size: Size) -> World:
    """The lists of one seed; the teacher's are of another."""
    make = make_shop if name == "shop" else make_places
    count = size.shop if name == "shop" else size.places
    most = max(TEACHER[name, strength] for strength in STRENGTHS)
    frame = make(seed, count + size.judged, size.shown)
    teacher = make(seed + SEED_OF_TEACHER, most, size.shown)
    sessions = frame["session_id"].drop_duplicates().to_numpy()
    first = set(sessions[: round(len(sessions) * count / (count + size.judged))])
    mine = frame["session_id"].isin(first)
    parts = (frame[mine].reset_index(drop=True), frame[~mine].reset_index(drop=True))
    return World(name, seed, size, *parts, teacher)


def hide_service(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows as a re-ranker learns from them: `position` is the engine's, `shown_position` the other."""
    seen = rows.assign(shown_position=rows["position"], position=rows["engine_position"])
    return seen.drop(columns=["engine_position", "swapped", "shown_probability"])


def keep_lists(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Lists of two items or more in which something has this label."""
    by_list = rows.groupby("search_id")[column]
    return rows[(by_list.transform("max") > 0) & (by_list.transform("size") > 1)].reset_index(drop=True)


def judge_log(
    world: World, strength: str, clicks: str, rankers: Sequence[str], share: float = 1.0
) -> dict[str, Any]:
    """All methods on one log: MRR and NDCG@10 of what was wanted, for each ranker, and the propensities.

    `share` is how many of the log's sessions are there.
    """
    model = MODELS[clicks]()
    shown = world.show(strength)
    rows, data, test = shown.rows, shown.data, shown.test
    if share < 1.0:
        sessions = rows["session_id"].drop_duplicates()
        rows = rows[rows["session_id"].isin(sessions.iloc[: round(share * len(sessions))])]
    log = draw_clicks(rows.reset_index(drop=True), model, np.random.default_rng([world.seed, 11]))
    log["look"] = find_true_propensity(log, model)
    looked = log.groupby("position")["look"].mean().reindex(range(1, DEPTH + 1))
    curve = estimate_propensity(log, "swaps")
    labels, looks = np.zeros(data.n_rows), np.ones(data.n_rows)
    labels[log["row"]], looks[log["row"]] = log["label"], log["look"]
    there = np.zeros(data.n_queries, dtype=bool)
    there[data.query_index[log["row"]]] = True
    oracle = choose_lists(data, there)
    sources = {"true": looks, "estimated": steady_curve(curve).at(shown.rows["position"].to_numpy())}
    weighed = {
        name: choose_lists(data.replace(y=labels, propensity=each), there) for name, each in sources.items()
    }
    clicked = weighed["true"]
    held = np.random.default_rng([world.seed, 13]).random(data.n_rows) < 0.2  # by the number of a session
    first = clicked.segments["session_id"][clicked.offsets[:-1]]
    later = held[np.unique(first, return_inverse=True)[1]]
    found: dict[str, Any] = {}
    for kind in rankers:
        make = partial(make_learner, kind, world.size)
        scores, naive = {"oracle": make().fit(oracle).predict(test)}, None
        for name, each in weighed.items():
            parts = (each[np.flatnonzero(~later)], each[np.flatnonzero(later)])
            fit = learn_debiased(make, *parts, naive=naive)
            naive = fit.naive
            scores[name] = fit.ranker.predict(test)
            if name == "true":
                scores |= {"naive": fit.naive.predict(test), "bare": fit.weighted.predict(test)}
            else:
                scores["bare estimated"] = fit.weighted.predict(test)
            found[f"{kind} {name}"] = fit.facts
        if world.name == "places" and clicks == "position" and share == 1.0 and kind != "ranksvm":
            scores |= learn_carried(log, shown.judged, make, curve)
        found[kind] = {name: judge_scores(each, test) for name, each in scores.items()}
    counts = {"lists": log["search_id"].nunique(), "clicked": clicked.n_queries, "judged": test.n_queries}
    curves = {"true": looked / looked.iloc[0], "estimated": steady_curve(curve).at(np.arange(1, DEPTH + 1))}
    counts["misfit"] = None if curve.misfit is None else bool(curve.misfit.flagged)
    return {**found, **counts, "looks": {name: list(map(float, each)) for name, each in curves.items()}}


def learn_carried(log: pd.DataFrame, judged: pd.DataFrame, make: Any, curve: Any) -> dict[str, np.ndarray]:
    """Scores of the judged lists by re-rankers that also learn from later clicks of a session.

    As `Reranker.fit` has it: unclicked lists are labelled with what their session clicked later. The features
    are those of the other methods, without past clicks.
    """
    from placings.places import place_features

    told = log.drop(columns=["wanted", "look", "row"])
    test = hide_service(judged)
    scores = {}
    for name, source in zip(CARRIED, (None, curve), strict=True):
        reranker = Reranker(
            place_features(history=False), make(), guard=False, propensity=source, random_state=0
        )
        scores[name] = reranker.fit(told).score(test.drop(columns="wanted"))
    return scores


def choose_lists(data: Any, there: np.ndarray) -> Any:
    """Those of these lists that have two items or more and a label above 0."""
    labelled = np.bincount(data.query_index, data.y > 0, minlength=data.n_queries) > 0
    return data[np.flatnonzero(there & labelled & (data.sizes > 1))]


def judge_scores(scores: np.ndarray, test: Any) -> dict[str, float]:
    """MRR and NDCG@10 on what was wanted."""
    return {
        "mrr": float(np.nanmean(mrr(scores, test.y, test.offsets, min_items=2))),
        "ndcg": float(np.nanmean(ndcg(scores, test.y, test.offsets, k=10))),
    }


# -- many logs ---------------------------------------------------------------------------------------


def run_seed(name: str, seed: int, chosen: Settings) -> list[dict[str, Any]]:
    """All logs of one world and seed; finished ones come from the cells."""
    warnings.simplefilter("ignore")
    made: list[World] = []

    def get_world() -> World:
        if not made:
            made.append(make_world(name, seed, chosen.size))
        return made[0]

    cells = []
    for strength, clicks, share in chosen.list_logs():
        facts = {
            "world": name, "seed": seed, "strength": strength, "clicks": clicks, "share": share,
            "rankers": list(chosen.rankers), "size": asdict(chosen.size), "version": VERSION,
        }  # fmt: skip

        def make(strength: str = strength, clicks: str = clicks, share: float = share) -> dict[str, Any]:
            return judge_log(get_world(), strength, clicks, chosen.rankers, share)

        label = f"{name}-{seed}-{strength}-{clicks}-{share:g}"
        cells.append({**facts, **keep_cell(chosen.cells, label, facts, make)})
        print(f"done: {label}", file=sys.stderr, flush=True)
    return cells


@dataclass(frozen=True)
class Settings:
    """What is run."""

    size: Size
    rankers: tuple[str, ...]
    models: tuple[str, ...]
    shares: tuple[float, ...]
    cells: Path | None

    def list_logs(self) -> list[tuple[str, str, float]]:
        """Strength, clicks and share of each log; curves over sessions for clicks of the position model."""
        logs = [(strength, clicks, 1.0) for clicks in self.models for strength in STRENGTHS]
        return [*logs, *(("weak", "position", share) for share in self.shares)]


def measure_ratio(
    cells: Sequence[Mapping[str, Any]], kind: str, method: str, metric: str, draws: int = 2000
) -> tuple[float, float, float]:
    """`Σ(method − naive) / Σ(oracle − naive)` over logs, with a 95 % bootstrap interval.

    Logs of one world and seed are drawn together, for they have lists in common.
    """
    gains = np.array([cell[kind][method][metric] - cell[kind]["naive"][metric] for cell in cells])
    gaps = np.array([cell[kind]["oracle"][metric] - cell[kind]["naive"][metric] for cell in cells])
    units = np.unique([f"{cell['world']} {cell['seed']}" for cell in cells], return_inverse=True)[1]
    sums = np.stack([np.bincount(units, gains), np.bincount(units, gaps)], axis=1)
    rng = np.random.default_rng(0)
    drawn = sums[rng.integers(0, len(sums), (draws, len(sums)))].sum(axis=1)  # [draws, 2]
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(gains.sum() / gaps.sum()), float(low), float(high)


def write_tables(cells: Sequence[Mapping[str, Any]], rankers: Sequence[str]) -> str:
    """Every log and seed, then the ratios and the worst differences."""
    lines = ["SIMULATED people. MRR on what was wanted; differences to naive.", ""]
    whole = [cell for cell in cells if cell["share"] == 1.0]
    methods = [*METHODS[1:], *(CARRIED if any(cell["world"] == "places" for cell in whole) else ())]
    head = f"{'world':7} {'seed':>4} {'shown':7} {'clicks':9} {'ranker':9} {'clicked':>7} {'naive':>7}"
    lines.append(
        head + "".join(f"{name:>{_fit_width(name)}}" for name in methods) + "  taken (true, estimated)"
    )
    for cell in whole:
        for kind in rankers:
            values = {name: each["mrr"] for name, each in cell[kind].items()}
            taken = ", ".join(cell[f"{kind} {name}"]["chosen"] for name in ("true", "estimated"))
            lines.append(
                f"{cell['world']:7} {cell['seed']:4} {cell['strength']:7} {cell['clicks']:9} {kind:9} "
                f"{cell['clicked']:7} {values['naive']:7.4f}"
                + "".join(
                    f"{values[name] - values['naive']:+{_fit_width(name)}.4f}"
                    if name in values
                    else " " * _fit_width(name)
                    for name in methods
                )
                + f"  {taken}"
            )
    lines.append("")
    for kind in rankers:
        for group in (("position",), tuple(model for model in MODELS if model != "position")):
            chosen = [cell for cell in whole if cell["clicks"] in group]
            if not chosen:
                continue
            for method in ("true", "estimated", "bare", "bare estimated"):
                told = []
                for metric in ("mrr", "ndcg"):
                    value, low, high = measure_ratio(chosen, kind, method, metric)
                    told.append(f"{metric} {value:.2f} [{low:.2f}, {high:.2f}]")
                worst = min((_find_gain(cell, kind, method), _name_log(cell)) for cell in chosen)
                lines.append(
                    f"{kind:9} {' '.join(group):21} {method:14} Σ(method − naive)/Σ(oracle − naive): "
                    f"{', '.join(told)}; worst of {len(chosen)} logs {worst[0]:+.4f} ({worst[1]})"
                )
    return "\n".join(lines)


def _fit_width(name: str) -> int:
    return max(11, len(name) + 2)


def _find_gain(cell: Mapping[str, Any], kind: str, method: str) -> float:
    return float(cell[kind][method]["mrr"] - cell[kind]["naive"]["mrr"])


def _name_log(cell: Mapping[str, Any]) -> str:
    return f"{cell['world']} {cell['seed']} {cell['strength']} {cell['clicks']}"


def draw_curves(cells: Sequence[Mapping[str, Any]], kind: str, path: Path) -> None:
    """MRR over the number of sessions, one panel for each world, the mean of all seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    worlds = sorted({cell["world"] for cell in cells})
    figure, panels = plt.subplots(1, len(worlds), figsize=(5 * len(worlds), 3.6), squeeze=False)
    for panel, world in zip(panels[0], worlds, strict=True):
        mine = [
            cell for cell in cells
            if cell["world"] == world and cell["strength"] == "weak" and cell["clicks"] == "position"
        ]  # fmt: skip
        shares = sorted({cell["share"] for cell in mine})
        for method in ("oracle", "true", "estimated", "naive"):
            points = [[cell for cell in mine if cell["share"] == share] for share in shares]
            panel.plot(
                [np.mean([cell["lists"] for cell in group]) for group in points],
                [np.mean([cell[kind][method]["mrr"] for cell in group]) for group in points],
                marker="o", label=method,
            )  # fmt: skip
        panel.set(
            title=f"SIMULATED {world}, {kind}", xlabel="lists in the log", ylabel="MRR on what was wanted"
        )
        panel.set_xscale("log")
        sizes = [round(np.mean([cell["lists"] for cell in mine if cell["share"] == each])) for each in shares]
        panel.set_xticks(sizes, [f"{each:,}" for each in sizes])
        panel.minorticks_off()
    panels[0][0].legend()
    figure.tight_layout()
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def parse_seeds(text: str) -> list[int]:
    """`0-3` or `0,2,5`."""
    if "-" in text:
        first, last = map(int, text.split("-"))
        return list(range(first, last + 1))
    return [int(word) for word in text.split(",")]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=parse_seeds, default=parse_seeds("0-2"), help="0-2 or 0,4,7")
    options.add_argument("--out", type=Path, default=Path("runs/honest_learning"))
    options.add_argument("--jobs", type=int, default=2, help="processes")
    options.add_argument("--worlds", default=",".join(WORLDS))
    options.add_argument("--rankers", default=",".join(RANKERS[:2]), help=", ".join(RANKERS))
    options.add_argument("--clicks", default=",".join(MODELS), help="click models")
    options.add_argument("--quick", action="store_true", help="one seed, small logs")
    chosen = options.parse_args()
    size, seeds, shares = Size(), chosen.seeds, SHARES
    if chosen.quick:
        size, seeds, shares = Size(600, 600, 400, rounds=20, bag=1), chosen.seeds[:1], (0.5,)
    worlds = [name for name in WORLDS if name in chosen.worlds.split(",")]
    if "places" in worlds and not PLACES.is_file():
        print(f"skipped: places, for there is no {PLACES}. Set PLACINGS_DATA.")
        worlds.remove("places")
    rankers = tuple(kind for kind in RANKERS if kind in chosen.rankers.split(","))
    models = tuple(name for name in MODELS if name in chosen.clicks.split(","))
    cells = None if chosen.quick else chosen.out / "cells"
    settings = Settings(size, rankers, models, shares, cells)
    tasks = [(name, seed, settings) for seed in seeds for name in worlds]
    if chosen.jobs > 1 and len(tasks) > 1:
        with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
            found = [cell for part in pool.map(run_seed, *zip(*tasks, strict=True)) for cell in part]
    else:
        found = [cell for task in tasks for cell in run_seed(*task)]
    found.sort(key=lambda cell: (cell["world"], cell["seed"]))
    print(write_tables(found, rankers))
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "cells.json").write_text(json.dumps(found, indent=1) + "\n")
    for kind in rankers:
        draw_curves(found, kind, chosen.out / f"curves_{kind}.svg")
        print(f"wrote {chosen.out / f'curves_{kind}.svg'}")


if __name__ == "__main__":
    main()
