"""What `AutoRanker` tries, and in which order: a schedule that data and seed fix, and time only cuts short.

A candidate is a ranker with its settings. A step fits one candidate on all but one of the inner folds and
scores the fold that was left out. The schedule is successive halving: every candidate gets one fold, the
better half gets more, the best of each kind gets all. Then come further candidates, drawn by seed, and at last
the folds are dealt anew and the winners fitted again, so that more models are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from placings.core import BadInput, UnknownName
from placings.rankers import Choice, Dimension, Float, Int, find_facts, make_ranker

KINDS: Mapping[str, str | None] = {  # kind → the library that it needs
    "linear": None, "lightgbm": "lightgbm", "catboost": "catboost", "xgboost": "xgboost", "neural": "torch",
}  # fmt: skip
LARGE = 1000  # training queries above which the first look is on a sample of so many
CS = tuple(10.0**power for power in range(-4, 4))  # what a linear candidate's C is chosen from
BRACKETS = 8  # rounds of drawn candidates behind the portfolio
DRAWN = 2  # candidates that a round draws for each kind with something to draw
SURVIVORS = 6  # candidates that get all folds at the most
HOPELESS = 0.03  # a kind that is so far behind after three folds gets no more


@dataclass(frozen=True)
class Candidate:
    """A ranker to try: its kind, its short name with settings, and whether training watches held-out lists."""

    name: str
    kind: str
    ranker: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stops(self) -> bool:
        """Whether something must be held out for it to stop training early."""
        return self.kind != "linear"


@dataclass(frozen=True)
class Step:
    """Fit one candidate without one fold of one deal; `sample` trains on so many queries at the most."""

    candidate: Candidate
    deal: int
    fold: int
    sample: int | None = None


class Results(Protocol):
    """What the schedule asks of the steps done so far."""

    def mean(self, candidate: Candidate, folds: int) -> float:
        """The mean of the metric over the first folds, those it was fitted without; −inf if it failed."""
        ...


def list_portfolio(kinds: Sequence[str]) -> list[Candidate]:
    """The candidates that come first: what did well on the made families for development."""
    found = [
        Candidate(f"ridge over {transform}", "linear", "ridge", {"transform": transform})
        for transform in ("quantile_normal", "piecewise", "gauss", "cdf", "log1p")
    ]
    found += [
        Candidate("LightGBM", "lightgbm", "lightgbm", {"rounds": 600}),
        Candidate("CatBoost", "catboost", "catboost", {"loss": "QueryRMSE", "rounds": 600}),
        Candidate("XGBoost", "xgboost", "xgboost", {"subsample": 0.8, "colsample": 0.7}),
        Candidate("neural", "neural", "neural", {}),
        Candidate(
            "LightGBM, small trees", "lightgbm", "lightgbm",
            {"leaves": 7, "min_data_in_leaf": 30, "feature_fraction": 0.5, "reg_lambda": 10.0, "rounds": 800},
        ),
        Candidate("CatBoost, YetiRank", "catboost", "catboost", {"rounds": 400}),
        Candidate("ridge over raw", "linear", "ridge", {"transform": "raw"}),
        Candidate(
            "XGBoost, small trees", "xgboost", "xgboost",
            {"max_depth": 3, "subsample": 0.7, "colsample": 0.5, "reg_lambda": 10.0, "rounds": 600},
        ),
        Candidate(
            "LightGBM, cross entropy", "lightgbm", "lightgbm",
            {"objective": "rank_xendcg", "leaves": 31, "bagging_fraction": 0.7, "rounds": 600},
        ),
        Candidate(
            "CatBoost, shallow", "catboost", "catboost",
            {"loss": "QueryRMSE", "depth": 4, "l2_leaf_reg": 10.0, "rounds": 800},
        ),
    ]  # fmt: skip
    return [each for each in found if each.kind in kinds]


def draw_candidates(kinds: Sequence[str], bracket: int, seed: int) -> list[Candidate]:
    """Candidates of a later round, from the rankers' own search spaces; the same for the same seed."""
    found = []
    for kind in kinds:
        space = find_facts(make_ranker(kind)).spaces.get("default", {}) if kind != "linear" else {}
        if not space:
            continue
        rng = np.random.default_rng([seed, bracket, list(KINDS).index(kind)])
        for number in range(1, DRAWN + 1):
            settings = {name: _draw(each, rng) for name, each in space.items() if "." not in name}
            known = make_ranker(kind).get_params(deep=False)
            settings = {name: value for name, value in settings.items() if name in known}
            found.append(Candidate(f"{kind} {bracket}.{number}", kind, kind, settings))
    return found


def _draw(dimension: Dimension, rng: np.random.Generator) -> Any:
    if isinstance(dimension, Choice):
        return dimension.options[int(rng.integers(len(dimension.options)))]
    low, high = float(dimension.low), float(dimension.high)
    if dimension.log:
        value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    else:
        value = float(rng.uniform(low, high))
    if isinstance(dimension, Int):
        return int(np.clip(round(value), dimension.low, dimension.high))
    assert isinstance(dimension, Float)
    return float(f"{value:.4g}")


def find_kinds(asked: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The kinds to try, and those that are left out because their library is not installed."""
    if isinstance(asked, str) or (asked is not None and not len(asked)):
        raise BadInput(f"kinds must list at least one of {', '.join(KINDS)}. Got {asked!r}.")
    for name in asked or ():
        if name not in KINDS:
            raise UnknownName("kind of ranker", str(name), KINDS)
    wanted = [name for name in KINDS if asked is None or name in asked]
    there = [name for name in wanted if (library := KINDS[name]) is None or find_spec(library) is not None]
    if not there:
        raise BadInput(f"none of {', '.join(wanted)} is installed. Install placings[trees] or [neural].")
    return there, [name for name in wanted if name not in there]


def plan_steps(
    kinds: Sequence[str], results: Results, *, queries: int, folds: int, seed: int
) -> Iterator[Step]:
    """The schedule: what is next hangs on the results so far, never on a clock."""
    sample = LARGE if queries > LARGE else None
    # a first look at a sample is not a fold of its own: the fold is fitted whole by those who stay
    first, begin = (sample, 0) if sample else (None, 1)
    candidates = list_portfolio(kinds)
    for each in candidates:
        yield Step(each, 0, 0, first)
    kept = _keep_best(candidates, results, 1, max(len(kinds), len(candidates) // 2))
    middle = min(3, folds)
    for fold in range(begin, middle):
        for each in kept:
            yield Step(each, 0, fold)
    kept = _drop_hopeless(_keep_best(kept, results, middle, SURVIVORS), results, middle)
    for fold in range(middle, folds):
        for each in kept:
            yield Step(each, 0, fold)
    for bracket in range(1, BRACKETS + 1):
        if bracket > 1:  # the winners on another deal of the folds: more models to average
            for fold in range(folds):
                for each in kept:
                    yield Step(each, bracket - 1, fold)
        drawn = [
            each
            for each in draw_candidates(kinds, bracket, seed)
            if each.kind in {other.kind for other in kept}
        ]
        for each in drawn:
            yield Step(each, 0, 0, first)
        better = [
            each
            for each in drawn
            if results.mean(each, 1) > max(results.mean(k, 1) for k in kept if k.kind == each.kind)
        ]
        for each in better:
            for fold in range(begin, folds):
                yield Step(each, 0, fold)
        kept = _keep_best([*kept, *better], results, folds, SURVIVORS)


def _keep_best(candidates: Sequence[Candidate], results: Results, folds: int, most: int) -> list[Candidate]:
    """The best of each kind, then the best of all, `most` at the most; in the order they had."""
    ranked = sorted(candidates, key=lambda each: -results.mean(each, folds))
    ranked = [each for each in ranked if np.isfinite(results.mean(each, folds))]
    leaders = {each.kind: each for each in reversed(ranked)}  # the first of each kind stays
    chosen = [each for each in ranked if leaders[each.kind] is each][:most]
    chosen += [each for each in ranked if each not in chosen][: max(0, most - len(chosen))]
    return [each for each in candidates if each in chosen]


def _drop_hopeless(candidates: Sequence[Candidate], results: Results, folds: int) -> list[Candidate]:
    best = max((results.mean(each, folds) for each in candidates), default=0.0)
    return [each for each in candidates if results.mean(each, folds) >= best - HOPELESS]
