"""What `AutoRanker` tries, and in which order: a schedule that data and seed fix, and time only cuts short.

A candidate is a ranker with its settings. A step fits one candidate on all but one of the inner folds and
scores the fold that was left out. The schedule is successive halving, in an order that may be cut short
anywhere: linear models over every transform and one candidate of each kind on one fold; those that are not
hopeless on two more; other candidates of each kind on one fold, and those that beat their kind's best on two
more. Then the best tree and network of each kind are fitted once on everything, for as long as their folds
took, and the survivors on the folds that are left. Then come candidates drawn by seed, and the survivors on
folds that are dealt anew, so that more models are averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from placings.core import BadInput, UnknownName
from placings.rankers import Choice, Dimension, Float, Int, find_facts, make_ranker

KINDS: Mapping[str, str | None] = {  # kind → the library that it needs
    "linear": None, "lightgbm": "lightgbm", "catboost": "catboost", "xgboost": "xgboost", "neural": "torch",
}  # fmt: skip
LARGE = 1000  # training queries above which the first look is on a sample of so many
MANY = 3000  # training queries above which one fold decides, and the best at first look go first
MIDDLE = 3  # folds that decide who gets all
MORE_ROUNDS = 2.5  # of many queries a tree ranker may take more rounds by this; it stops early all the same
LOOK = 0  # in place of a number of folds: the first look at a candidate, on a sample or on the first fold
BRACKETS = 8  # rounds of drawn candidates behind the portfolio
DRAWN = 2  # candidates that a round draws for each kind with something to draw
SECOND_CHANCE = 2  # trees and networks that are tried on after all where none but lines were left
SURVIVORS = 6  # candidates that get all folds at the most
# LightGBM: a quarter less time from 46 features on, and level below
COLUMNS = {"params": {"force_col_wise": True}}
PLAIN = {"ridge": False}  # of a network: the blend has ridges of its own
SOONER = {"check_every": 100, "patience": 5, "list_size": 120}  # a network on large data
STRETCH = {"neural": 1.7}  # on everything a training is longer than on the folds by this
STRETCH_TREES = 2.2
HOPELESS = 0.02  # so far behind the best, and two standard errors more, a kind gets no more folds
HOPELESS_SAMPLE = (
    0.05  # the same where a look at a sample decides about many queries: trees gain most from more
)


@dataclass(frozen=True)
class Candidate:
    """A ranker to try: its kind, its short name and its settings."""

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
    """Fit one candidate without one fold of one deal; `sample` trains on so many queries at the most.

    With `whole`, fit it on everything, for so many rounds or steps: nothing is left to judge it.
    """

    candidate: Candidate
    deal: int
    fold: int
    sample: int | None = None
    whole: int = 0


class Results(Protocol):
    """What the schedule asks of the steps done so far."""

    def mean(self, candidate: Candidate, folds: int) -> float:
        """The mean of the metric over so many whole folds, or of the first look; −inf if it has none."""
        ...

    def lag(self, candidate: Candidate, leader: Candidate, folds: int) -> tuple[float, float]:
        """How far it is behind another one in the mean over queries, and the standard error of that."""
        ...

    def length(self, candidate: Candidate) -> float:
        """How many rounds or steps its folds took in the mean, up to the best one; 0 if none was fitted."""
        ...


def list_core(kinds: Sequence[str], queries: int = 0) -> list[Candidate]:
    """The candidates that come first: linear ones over every transform, and one of each other kind.

    Of many `queries` a network stops sooner: its first look would take longer than all others together.
    """
    found = [
        Candidate(f"ridge over {transform}", "linear", "ridge", {"transform": transform})
        for transform in ("quantile_normal", "piecewise", "cdf", "log1p", "query_minmax", "gauss")
    ]
    found += [
        Candidate("LightGBM", "lightgbm", "lightgbm", {**COLUMNS, "rounds": 600}),
        Candidate("CatBoost", "catboost", "catboost", {"loss": "QueryRMSE", "rounds": 600}),
        Candidate("neural", "neural", "neural", {**PLAIN, **(SOONER if queries > LARGE else {})}),
        Candidate("XGBoost", "xgboost", "xgboost", {"subsample": 0.8, "colsample": 0.7, "rounds": 300}),
    ]
    return [_allow_rounds(each, queries) for each in found if each.kind in kinds]


def list_others(kinds: Sequence[str], queries: int = 0) -> list[Candidate]:
    """The candidates that come next: other losses and sizes of each kind."""
    found = [
        Candidate(
            "LightGBM, small trees", "lightgbm", "lightgbm",
            {
                **COLUMNS, "leaves": 7, "min_data_in_leaf": 30, "feature_fraction": 0.5, "reg_lambda": 10.0,
                "rounds": 800,
            },
        ),
        Candidate(
            "CatBoost, shallow", "catboost", "catboost",
            {"loss": "QueryRMSE", "depth": 4, "l2_leaf_reg": 10.0, "rounds": 800},
        ),
        Candidate(
            "LightGBM, cross entropy", "lightgbm", "lightgbm",
            {**COLUMNS, "objective": "rank_xendcg", "leaves": 31, "bagging_fraction": 0.7, "rounds": 600},
        ),
        Candidate(
            "XGBoost, small trees", "xgboost", "xgboost",
            {"max_depth": 3, "subsample": 0.7, "colsample": 0.5, "reg_lambda": 10.0, "rounds": 600},
        ),
        Candidate(
            "CatBoost, depth 2", "catboost", "catboost",
            {"loss": "QueryRMSE", "depth": 2, "l2_leaf_reg": 10.0, "rounds": 800},
        ),
        Candidate("CatBoost, YetiRank", "catboost", "catboost", {"rounds": 400}),
    ]  # fmt: skip
    return [_allow_rounds(each, queries) for each in found if each.kind in kinds]


def _allow_rounds(candidate: Candidate, queries: int) -> Candidate:
    """The candidate as it is, or with more rounds at the most where there are many queries."""
    if queries <= MANY or "rounds" not in candidate.settings:
        return candidate
    rounds = round(MORE_ROUNDS * candidate.settings["rounds"])
    return replace(candidate, settings={**candidate.settings, "rounds": rounds})


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
            settings |= PLAIN if kind == "neural" else {}
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
    begin = 0 if sample else 1
    many = queries > MANY
    middle = 1 if many else min(MIDDLE, folds)
    core, others = list_core(kinds, queries), list_others(kinds, queries)
    for each in core:
        yield Step(each, 0, 0, sample)
    kept = _keep_best(core, results, LOOK, len(kinds) + 1)
    kept = _drop_hopeless(kept, results, LOOK, HOPELESS_SAMPLE if many else HOPELESS)
    if many:  # a step is long, and time may end behind any of them
        kept = sorted(kept, key=lambda each: -results.mean(each, LOOK))
    yield from _walk(kept, range(begin, middle))
    kept = _drop_hopeless(kept, results, middle)
    yield from _challenge(kept, others, results, sample, range(begin, middle))
    kept = _keep_best([*kept, *others], results, middle, SURVIVORS)
    whole: set[str] = set()
    yield from _fit_whole(kept, results, middle, whole)
    yield from _walk(kept, range(middle, folds))
    yield from _fit_whole(kept, results, folds, whole)
    if not any(each.stops for each in kept):  # there is time left, so others get a second chance
        again = [each for each in core if each.stops and np.isfinite(results.mean(each, LOOK))]
        again = sorted(again, key=lambda each: -results.mean(each, LOOK))[:SECOND_CHANCE]
        for each in again:
            yield from _walk(
                [each], range(middle if np.isfinite(results.mean(each, middle)) else begin, folds)
            )
        kept += again
        yield from _fit_whole(kept, results, folds, whole)
    for bracket in range(1, BRACKETS + 1):
        drawn = draw_candidates(kinds, bracket, seed)
        yield from _challenge(kept, drawn, results, sample, range(begin, folds))
        kept = _keep_best([*kept, *drawn], results, folds, SURVIVORS)
        yield from _fit_whole(kept, results, folds, whole)
        yield from _walk(kept, range(folds), deal=bracket)  # more models to average


def _walk(candidates: Sequence[Candidate], folds: Iterable[int], deal: int = 0) -> Iterator[Step]:
    """Every candidate on a fold, then on the next."""
    for fold in folds:
        for each in candidates:
            yield Step(each, deal, fold)


def _fit_whole(
    candidates: Sequence[Candidate], results: Results, folds: int, done: set[str]
) -> Iterator[Step]:
    """The best tree and network of each kind on everything, unless it is in `done`; the best of all first."""
    ranked = sorted(candidates, key=lambda each: -results.mean(each, folds))
    leaders = {each.kind: each for each in reversed(ranked)}
    for each in ranked:
        if leaders[each.kind] is each and each.stops and each.name not in done:
            done.add(each.name)
            length = results.length(each) * STRETCH.get(each.kind, STRETCH_TREES)
            yield Step(each, 0, 0, whole=max(1, round(length)))


def _challenge(
    kept: Sequence[Candidate],
    others: Sequence[Candidate],
    results: Results,
    sample: int | None,
    folds: Sequence[int],
) -> Iterator[Step]:
    """A first look at others of the kinds kept, and more folds for those ahead of their kind's best."""
    others = [each for each in others if each.kind in {other.kind for other in kept}]
    for each in others:
        yield Step(each, 0, 0, sample)
    for each in others:
        best = max(results.mean(other, LOOK) for other in kept if other.kind == each.kind)
        if results.mean(each, LOOK) > best:
            yield from _walk([each], folds)


def _keep_best(candidates: Sequence[Candidate], results: Results, folds: int, most: int) -> list[Candidate]:
    """The best of each kind, then the best of all, `most` at the most; in the order they had."""
    ranked = sorted(candidates, key=lambda each: -results.mean(each, folds))
    ranked = [each for each in ranked if np.isfinite(results.mean(each, folds))]
    leaders = {each.kind: each for each in reversed(ranked)}  # the first of each kind stays
    chosen = [each for each in ranked if leaders[each.kind] is each][:most]
    chosen += [each for each in ranked if each not in chosen][: max(0, most - len(chosen))]
    return [each for each in candidates if each in chosen]


def _drop_hopeless(
    candidates: Sequence[Candidate], results: Results, folds: int, margin: float = HOPELESS
) -> list[Candidate]:
    """Without those that are surely far behind the best."""
    if not candidates:
        return []
    best = max(candidates, key=lambda each: results.mean(each, folds))
    found = []
    for each in candidates:
        behind, error = results.lag(each, best, folds)
        if each is best or behind <= margin + 2.0 * error:
            found.append(each)
    return found
