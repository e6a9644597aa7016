"""A step of `AutoRanker`: a candidate fitted without one inner fold and judged on it; taken once and kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from placings.core import Floats, Ints, digest_facts, read_array, read_facts, write_array, write_facts
from placings.data import RankingData, find_clusters
from placings.evaluation.portfolio import Candidate, Step
from placings.metrics import metric as as_metric
from placings.rankers import (
    LinearRanker,
    Ranker,
    find_versions,
    load_ranker,
    make_ranker,
    measure_spread,
    score_ridges,
)
from placings.transforms import make_transform

CS = tuple(10.0**power for power in range(-5, 4))  # what a linear candidate's C is chosen from
WATCHED = 1 / 8  # of a step's training queries are held out for early stopping
FEWEST_WATCHED = 4  # queries; with fewer to watch a ranker is trained to its end
NOBODY: Ints = np.zeros(0, dtype=np.int64)  # the queries that judge a step on everything
OWN_SEED = 1000  # in a fold's place in the seed of a step on everything
SCORES, FACTS, MODEL = "scores.npy", "facts.json", "model"  # of a kept step


@dataclass(frozen=True)
class Tried:
    """One step that was done: the held-out queries, their scores, and what was fitted."""

    step: Step
    held: Ints  # queries of the whole data
    scores: Floats  # [settings, rows] of their rows; a linear candidate has one setting for each C
    values: Floats  # [settings, queries] of the metric
    seconds: float
    model: Ranker | None = field(repr=False)  # None for a linear candidate
    length: int = 0  # rounds or steps up to the best one


class OutOfTime(Exception):
    """A step would not have ended in time, so that it was broken off: it counts as never begun."""


# -- folds -----------------------------------------------------------------------------------------


def deal_folds(data: RankingData, folds: int, seed: int) -> list[Ints]:
    """The queries of each fold: whole users or sessions where the data know them, dealt by seed."""
    clusters = find_clusters(data)
    codes = np.arange(data.n_queries) if clusters is None else clusters.codes
    units = np.unique(codes)
    if len(units) < 2 * folds:  # too few people to keep them apart
        codes, units = np.arange(data.n_queries), np.arange(data.n_queries)
    parts = np.array_split(np.random.default_rng([seed, 17]).permutation(units), folds)
    return [np.flatnonzero(np.isin(codes, part)) for part in parts]


def cut_step(
    step: Step, data: RankingData, parts: Sequence[Ints], seed: int
) -> tuple[RankingData, RankingData | None, Ints]:
    """What a step trains on, what it watches to stop early, and the queries that judge it."""
    held = parts[step.fold]
    rest = np.sort(np.concatenate([part for place, part in enumerate(parts) if place != step.fold]))
    rng = np.random.default_rng([seed, step.deal, step.fold, 23])
    if step.sample is not None and len(rest) > step.sample:
        rest = np.sort(rng.choice(rest, step.sample, replace=False))
    watched = round(WATCHED * len(rest))
    if not step.candidate.stops or watched < FEWEST_WATCHED:
        return data[rest], None, held
    mixed = rng.permutation(rest)
    return data[np.sort(mixed[watched:])], data[np.sort(mixed[:watched])], held


# -- a step ----------------------------------------------------------------------------------------


def take_step(
    step: Step, data: RankingData, parts: Sequence[Ints], seed: int, metric: str, left: float | None = None
) -> Tried:
    """Fit a candidate without a fold and score that fold.

    `left` is how many seconds there are. A network that would need more is broken off: `OutOfTime`. A step on
    everything has no fold to score.
    """
    began = time.perf_counter()
    train, watched, held = (data, None, NOBODY) if step.whole else cut_step(step, data, parts, seed)
    lists = data[held]
    model: Ranker | None = None
    length = 0
    if step.candidate.kind == "linear":
        scores = score_path(step.candidate, train, lists)
    else:
        number = (1_000_003 * seed + 1009 * step.deal + (OWN_SEED if step.whole else step.fold)) % 2**32
        model = make_ranker(step.candidate.ranker, **{**step.candidate.settings, "random_state": number})
        known = model.get_params(deep=False)
        if "metric" in known:
            model.set_params(metric=metric)
        if "budget" in known:
            model.set_params(budget="none" if left is None else left)
        if step.whole:
            length_of = (
                {"steps": step.whole, "holdout": 0.0} if "holdout" in known else {"rounds": step.whole}
            )
            model.set_params(**length_of)
        model.fit(train, valid=watched)
        length = int(model.history_.best_step if "holdout" in known else model.rounds_)
        if "budget" in known:
            if model.history_.ended == "budget":
                raise OutOfTime
            model.set_params(budget="none")  # what was left is no setting that a bundle should keep
        scores = np.zeros((1, 0)) if step.whole else model.predict(lists)[None, :]
    values = judge_all(scores, lists, metric)
    seconds = time.perf_counter() - began
    return Tried(step, held, scores, values, seconds, model, length)


def make_linear(candidate: Candidate, C: float) -> LinearRanker:
    """The linear ranker of a candidate at this C."""
    made = make_ranker(candidate.ranker, C=C, **candidate.settings)
    assert isinstance(made, LinearRanker)
    return made


def score_path(candidate: Candidate, train: RankingData, lists: RankingData) -> Floats:
    """What a linear candidate scores held-out lists at every C, `[Cs, rows]`; one transform for all."""
    given = make_linear(candidate, 1.0).get_params(deep=False)
    if given["transform"] is not None:
        transform = make_transform(given["transform"], missing=given["missing"]).fit(train)
        names = tuple(map(str, transform.get_feature_names_out()))
        train = train.replace(X=transform.transform(train), feature_names=names)
        lists = lists.replace(X=transform.transform(lists), feature_names=names)
    return score_ridges(train, lists, CS)


def judge_all(scores: Floats, lists: RankingData, metric: str) -> Floats:
    """The metric of each setting's scores, `[settings, queries]`."""
    judge = as_metric(metric)
    return np.stack([judge(row, lists.y, lists.offsets, propensity=lists.propensity) for row in scores])


def average_values(done: Sequence[Tried]) -> Floats:
    """The mean over all queries of these steps, `[settings]`; 0 where no query has a value."""
    values = np.concatenate([each.values for each in done], axis=1)
    there = ~np.isnan(values)
    means: Floats = np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return means


def choose_setting(done: Sequence[Tried]) -> int:
    """The setting (of a linear candidate, the C) with the highest mean over all folds done."""
    return int(np.argmax(average_values(done)))


def scale_scores(tried: Tried, setting: int, data: RankingData) -> tuple[Floats, float]:
    """A step's scores divided by how far they lie apart within a list, and that number."""
    spread = measure_spread(tried.scores[setting], data[tried.held].offsets)
    scale = spread if spread > 0.0 and np.isfinite(spread) else 1.0
    return tried.scores[setting] / scale, scale


# -- kept steps ------------------------------------------------------------------------------------


def name_step(step: Step, prints: str, seed: int, metric: str, folds: int) -> str:
    """The folder of a step: named after all that could change it."""
    made_of = {
        "candidate": [step.candidate.name, step.candidate.ranker, dict(step.candidate.settings)],
        "step": [step.deal, step.fold, step.sample, step.whole], "data": prints, "seed": seed,
        "metric": metric, "folds": folds, "versions": find_versions(),
    }  # fmt: skip
    return f"step-{digest_facts(made_of)}"


def keep_step(place: Path, tried: Tried) -> None:
    """Write a step; the facts come last, so that half a step is none."""
    place.mkdir(parents=True, exist_ok=True)
    write_array(place / SCORES, tried.scores.ravel())
    if tried.model is not None:
        tried.model.save(place / MODEL)
    write_facts(
        place / FACTS, {"seconds": tried.seconds, "settings": len(tried.scores), "length": tried.length}
    )


def read_step(
    place: Path | None, step: Step, data: RankingData, parts: Sequence[Ints], metric: str
) -> Tried | None:
    """A step that was kept; None if there is none, or not all of it."""
    facts = None if place is None else read_facts(place / FACTS)
    if place is None or facts is None:
        return None
    held = NOBODY if step.whole else parts[step.fold]
    lists = data[held]
    count = int(facts["settings"])
    flat = read_array(place / SCORES, count * lists.n_rows)
    wants_model = step.candidate.kind != "linear"
    if flat is None or (wants_model and not (place / MODEL).is_dir()):
        return None
    scores = np.array(flat).reshape(count, lists.n_rows)
    model = load_ranker(place / MODEL) if wants_model else None
    values = judge_all(scores, lists, metric)
    return Tried(step, held, scores, values, float(facts["seconds"]), model, int(facts["length"]))
