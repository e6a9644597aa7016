"""`degrade`: what would it cost if a feature lost some of its coverage?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placings.core import (
    BadInput,
    Bools,
    Floats,
    UnknownName,
    check_count,
    check_share,
    mean_known,
    option,
    show_progress,
)
from placings.data import RankingData, check_seed, find_clusters
from placings.evaluation import Importance, name_metrics
from placings.feco.effects import WHERE, Degradation, Effect, sort_importance
from placings.feco.masking import (
    TEST,
    TRAIN,
    VALID,
    Rule,
    Units,
    check_drops,
    check_value,
    choose_candidates,
    count_units,
    darken,
    draw_order,
    score_each,
    take_column,
)
from placings.feco.subjects import Subject, as_ranking, resolve_features, weigh_features
from placings.metrics import Metric, measure

DRAWS = {"test": 20, "train+test": 3}


def degrade(
    ranker: Any,
    train: Any,
    test: Any,
    features: str | int | Sequence[str | int],
    *,
    drops: Sequence[float] = (0.05, 0.25, 0.5),
    where: str | Sequence[str] = "test",
    value: float = 0.0,
    of: str = "covered",
    unit: str = "event",
    rule: Rule = "non_zero",
    draws: int | Mapping[str, int] | None = None,
    metrics: str | Metric | Sequence[str | Metric] = ("ndcg@4", "ndcg@8"),
    metric: Callable[[Any, Any], float] | None = None,
    lower_is_better: bool = False,
    response_method: str = "predict",
    importance: str | Importance | Mapping[str, float] | None = None,
    valid: Any = None,
    alpha: float = 0.05,
    level: float = 0.95,
    bootstrap: int = 1000,
    permutations: int = 10_000,
    progress: bool = False,
    random_state: int = 0,
    **options: Any,
) -> Degradation:
    """Take a feature's values away in a share of the events, score again or retrain, and say what was lost.

    For each feature, each of `drops` and each of `draws`, a seeded share of events loses the feature: `value`
    (0, as engines fill in, or NaN) stands in all their rows. A query's metric is averaged over the draws and
    paired with its own on the full data; intervals are bootstraps over queries, tests flip signs, corrected
    by Holm over features × drops × metrics.

    - `where="test"` scores the masked test data with the ranker as it is (20 draws); `"train+test"` masks
      training (and `valid`) and test data alike and retrains a clone in each draw (3), against clones
      that were trained on the full data with the same seeds; a list asks for both.
    - `of="covered"`: the share is of the events that have the feature, so coverage falls by that share
      of itself. `of="all"`: of all events, drawn whether they have it or not.
    - `unit="event"`, the paper's: what loses the feature is a search with all its rows. `"row"`: single rows,
      as when items, not searches, lack a value. An event has a feature if any of its rows has, by `rule`.
    - `features`: names, places from 0, `"top:5"` (the most important ones), `"random:top:10"` (one of them),
      or a list. `importance` is a kind of `rank_importance`, an Importance or a mapping; None takes
      a tree's gains, a linear ranker's contributions, and permutation for others if it must be known.
    - `metric(y_true, y_pred)` in place of `metrics` judges a regression or a classification, with
      `lower_is_better` and scikit-learn's `response_method`; `train` and `test` may then be `(X, y)` or
      `(X, y, event)`. Such a number has no query: interval and p-value bootstrap events and draws together.

    `ranker` is anything with `predict`; `train` may be None if nothing is retrained. Masks of one draw are
    nested (dark at 5 % is dark at 25 %) and depend on `random_state` and the feature's name only, so rankers
    are compared on the same masks. `options` (`empty=`, `ties=`, …) go to the metrics.

    >>> from placings.simulate.rankings import make_ranking
    >>> from placings.rankers.linear import LinearRanker
    >>> train, test = make_ranking(60, n_features=3, mean_size=20, random_state=0).data.split(.5, .5,
    ...     random_state=0)
    >>> found = degrade(LinearRanker("ridge").fit(train), train, test, "top:1", drops=(0.5,))
    >>> loss = found.losses[0]
    >>> loss.metric, loss.coverage_before, loss.coverage_after, loss.lost > 0
    ('ndcg@4', 1.0, 0.5, True)

    Gope, Sugandharaju, Kotalwar and Salaka, Measuring feature quality for improved ranking performance,
    SIGIR eCom 2023, §4.2 and §4.3.
    """
    places = _list_places(where)
    seed = check_seed(random_state, drawn=False)
    check_share("alpha", alpha)
    asked = {
        "drops": check_drops(drops), "where": places, "value": check_value(value, rule), "of": of,
        "unit": unit, "rule": rule, "draws": _count_draws(draws, places), "callable": metric is not None,
        "lower_is_better": lower_is_better, "alpha": alpha, "level": level, "bootstrap": bootstrap,
        "permutations": permutations, "random_state": seed, **options,
    }  # fmt: skip
    data = as_ranking(test, "test")
    subject = Subject(ranker, response_method)
    trained = None if train is None else as_ranking(train, "train")
    if "train+test" in places:
        if trained is None:
            raise BadInput(
                f"{option('where', value='train+test')} retrains, so it needs {option('train')}. Got none."
            )
        subject.check_clonable()
    judge = DegradationJudge(data, metrics, metric, options, bootstrap, seed)
    known = weigh_features(subject, importance, trained if trained is not None else data)
    chosen = resolve_features(features, data.feature_names, known, seed)
    held = None if valid is None else as_ranking(valid, "valid")
    run = Run(subject, trained, held, data, judge, asked, importance)
    baseline, effects = {}, []
    first = known(needed=False)
    with _show(len(chosen), places, asked, progress) as bar:
        for place in places:
            base = run.score_full(place)
            if base.importance is not None:
                first = base.importance
            baseline[place] = base.average()[0]
            for name, how in chosen:
                found = run.mask_test(name) if place == "test" else run.retrain(name, bar.advance)
                effects += [run.summarise(name, how, place, drop, base, found[drop]) for drop in found]
                if place == "test":
                    bar.advance()
    return Degradation(baseline, tuple(effects), asked, first, find_clusters(data))


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawTally:
    """What was measured in each draw, the coverage that was left, and what the rankers were worth."""

    measured: list[dict[str, Floats]] = field(default_factory=list)
    predictions: list[Floats] = field(default_factory=list)
    coverages: list[float] = field(default_factory=list)
    weighed: list[Importance | None] = field(default_factory=list)

    def average(self) -> tuple[dict[str, Floats], dict[str, float]]:
        """Each query's values averaged over draws, and the standard deviation of the mean between draws."""
        values, spread = {}, {}
        for name in self.measured[0]:
            by_draw = np.stack([each[name] for each in self.measured], axis=1)  # [queries, draws]
            values[name] = by_draw.mean(axis=1)
            spread[name] = float(np.std(mean_known(by_draw), ddof=1)) if by_draw.shape[1] > 1 else 0.0
        return values, spread

    @property
    def importance(self) -> Importance | None:
        """The mean over the draws."""
        known = [each for each in self.weighed if each is not None]
        if not known:
            return None
        means = {name: float(np.mean([each[name] for each in known])) for name in known[0].names}
        return sort_importance(known[0].kind, known[0].meaning, means)


@dataclass(frozen=True)
class DegradationJudge:
    """The metrics of predictions on the test data: of each query, or of a callable's one number."""

    data: RankingData
    metrics: Any
    function: Callable[[Any, Any], float] | None
    options: Mapping[str, Any]
    bootstrap: int
    seed: int

    def __call__(self, predictions: Floats) -> dict[str, Floats]:
        data = self.data
        if self.function is not None:
            if self.options:
                raise BadInput(f"a callable metric takes no options. Got {', '.join(sorted(self.options))}.")
            name = getattr(self.function, "__name__", "metric")
            return {name: np.array([float(self.function(data.y, predictions))])}
        return measure(
            name_metrics(self.metrics),
            predictions,
            data.y,
            data.offsets,
            propensity=data.propensity,
            **self.options,
        )

    def note(self, tally: DrawTally, predictions: Floats) -> None:
        """Add one draw; its predictions are kept only where the bootstrap needs them."""
        tally.measured.append(self(predictions))
        if self.function is not None:
            tally.predictions.append(predictions)

    def replicate(self, full: DrawTally, degraded: DrawTally) -> dict[str, Floats]:
        """A callable's losses over resampled events and draws `[bootstrap]`, if they are finite."""
        if self.function is None:
            return {}
        import warnings

        rng = np.random.default_rng([self.seed, 1])
        queries = self.data.n_queries
        losses = []
        for _ in range(self.bootstrap):
            picked = rng.integers(0, queries, queries)
            rows = _list_rows(self.data, picked)
            draw = int(rng.integers(0, len(degraded.predictions)))
            before, after = full.predictions[draw % len(full.predictions)], degraded.predictions[draw]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a resample may lack a class; it gives NaN and is left out
                y = self.data.y[rows]
                losses.append(float(self.function(y, before[rows])) - float(self.function(y, after[rows])))
        found = np.array(losses)
        return {getattr(self.function, "__name__", "metric"): found[np.isfinite(found)]}


def _list_rows(data: RankingData, queries: Any) -> Any:
    sizes = data.sizes[queries]
    ends = np.cumsum(sizes)
    return np.repeat(data.offsets[:-1][queries] - (ends - sizes), sizes) + np.arange(int(sizes.sum()))


# -- one run -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What `degrade` does for each feature, with everything it needs."""

    subject: Subject
    train: RankingData | None
    valid: RankingData | None
    test: RankingData
    judge: DegradationJudge
    asked: Mapping[str, Any]
    kind: Any
    units: dict[int, Units] = field(default_factory=dict)

    def score_full(self, place: str) -> DrawTally:
        """The full data's predictions: of the ranker as it is, or of clones, one for each seed."""
        tally = DrawTally()
        if place == "test":
            self.judge.note(tally, self.subject.predict(self.test))
            if all(np.isnan(values).all() for values in tally.measured[0].values()):
                raise BadInput("no query of the test data can be scored: nothing is relevant. Check labels.")
            return tally
        assert self.train is not None
        for draw in range(self.asked["draws"][place] if self.subject.is_random else 1):
            clone = self._fit(self.train, self.valid, draw)
            self.judge.note(tally, clone.predict(self.test))
            tally.weighed.append(self._weigh(clone, self.train))
        return tally

    def mask_test(self, name: str) -> dict[float, DrawTally]:
        """The ranker on masked test data: for each drop, a tally of all draws."""
        found = {drop: DrawTally() for drop in self.asked["drops"]}
        asked = [(draw, drop) for draw in range(self.asked["draws"]["test"]) for drop in found]

        def mask() -> Iterator[Bools]:
            for draw, drop in asked:
                dark, left = self._mask(self.test, name, draw, drop, TEST)
                found[drop].coverages.append(left)
                yield dark

        value, reach = self.asked["value"], self.subject.reach
        scored = score_each(self.subject.predict, self.test, name, mask(), value, reach=reach)
        for (_, drop), predictions in zip(asked, scored, strict=True):
            self.judge.note(found[drop], predictions)
        return found

    def retrain(self, name: str, advance: Callable[[], None]) -> dict[float, DrawTally]:
        """Clones that were trained and tested with the feature masked: for each drop, a tally."""
        assert self.train is not None
        found = {drop: DrawTally() for drop in self.asked["drops"]}
        for drop, tally in found.items():
            for draw in range(self.asked["draws"]["train+test"]):
                train = self._darken(self.train, name, draw, drop, TRAIN)
                valid = None if self.valid is None else self._darken(self.valid, name, draw, drop, VALID)
                clone = self._fit(train, valid, draw)
                dark, left = self._mask(self.test, name, draw, drop, TEST)
                tally.coverages.append(left)
                self.judge.note(tally, clone.predict(darken(self.test, {name: dark}, self.asked["value"])))
                tally.weighed.append(self._weigh(clone, train))
                advance()
        return found

    def summarise(
        self, name: str, how: str, place: str, drop: float, base: DrawTally, tally: DrawTally
    ) -> Effect:
        """One row of the table."""
        units = self._count(self.test)
        covered = units.cover(take_column(self.test.X, self.test._place(name)), self.asked["rule"])
        after = tally.importance
        return Effect(
            name, how, place, drop, len(tally.measured), units.count, float(covered.mean()),
            float(np.mean(tally.coverages)), *tally.average(), self.judge.replicate(base, tally),
            None if after is None else {each: after[each] for each in after.names},
        )  # fmt: skip

    def _darken(self, data: RankingData, name: str, draw: int, drop: float, part: int) -> RankingData:
        return darken(data, {name: self._mask(data, name, draw, drop, part)[0]}, self.asked["value"])

    def _mask(self, data: RankingData, name: str, draw: int, drop: float, part: int) -> tuple[Bools, float]:
        """The rows that go dark, and the coverage that is left."""
        asked, units = self.asked, self._count(data)
        covered = units.cover(take_column(data.X, data._place(name)), asked["rule"])
        order = draw_order(choose_candidates(covered, asked["of"]), asked["random_state"], name, draw, part)
        gone = order.first(drop)
        left = covered.copy()
        left[gone] = False
        return units.spread(gone), float(left.mean()) if len(left) else float("nan")

    def _count(self, data: RankingData) -> Units:
        return self.units.setdefault(id(data), count_units(data, self.asked["unit"]))

    def _fit(self, train: RankingData, valid: RankingData | None, draw: int) -> Subject:
        return self.subject.refit(train, valid, self.asked["random_state"] + draw)

    def _weigh(self, clone: Subject, train: RankingData) -> Importance | None:
        kind = self.kind if isinstance(self.kind, str) else None
        return weigh_features(clone, kind, train)(needed=kind is not None)


# -- arguments ---------------------------------------------------------------------------------------


def _list_places(where: str | Sequence[str]) -> tuple[str, ...]:
    places = (where,) if isinstance(where, str) else tuple(where)
    for place in places:
        if place not in WHERE:
            raise UnknownName(f"place to take coverage away ({option('where')})", str(place), WHERE)
    if not places or len(set(places)) != len(places):
        raise BadInput(f"where must be 'test', 'train+test' or a list of both. Got {where!r}.")
    return places


def _count_draws(draws: int | Mapping[str, int] | None, places: Sequence[str]) -> dict[str, int]:
    given = {} if draws is None else draws if isinstance(draws, Mapping) else dict.fromkeys(WHERE, draws)
    for place in given:
        if place not in WHERE:
            raise UnknownName("place in draws", str(place), WHERE)
    counts = {place: given.get(place, DRAWS[place]) for place in places}
    for count in counts.values():
        check_count("draws", count, least=1)
    return counts


def _show(features: int, places: Sequence[str], asked: Mapping[str, Any], wanted: bool) -> Any:
    fits = len(asked["drops"]) * asked["draws"].get("train+test", 0)
    steps = features * sum(1 if place == "test" else fits for place in places)
    return show_progress("degrade", steps, wanted=wanted, keep=True)
