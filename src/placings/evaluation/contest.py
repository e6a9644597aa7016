"""`compare_trained`: train several rankers on the same folds, with equal budgets, and compare them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from placings.core import (
    BadInput,
    Floats,
    Ints,
    check_count,
    name_cell,
    read_array,
    read_facts,
    show_progress,
    write_array,
    write_facts,
)
from placings.data import RankingData, find_clusters, name_units
from placings.evaluation.comparison import check_comparing, compare
from placings.evaluation.debiasing import check_propensity
from placings.evaluation.runs import fingerprint
from placings.evaluation.scoring import name_metrics
from placings.evaluation.slices import find_groups
from placings.evaluation.verdicts import Comparison
from placings.metrics import AnyMetric
from placings.metrics import metric as as_metric
from placings.rankers import POSITIVE_WEIGHT, Ranker, find_facts, find_versions, make_ranker

CELLS = "cells"
Fold: TypeAlias = tuple[RankingData, RankingData | None, RankingData]  # train, valid, test
Tuner: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Contest:
    """The comparison, the tuned parameters of each ranker by fold, and the seconds each ranker took."""

    comparison: Comparison
    parameters: Mapping[str, Sequence[Mapping[str, Any]]]
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        return repr(self.comparison)


def compare_trained(
    data: RankingData | str | Path | Sequence[Fold],
    rankers: Mapping[str, Ranker] | Sequence[str],
    *,
    folds: int | None = None,
    seeds: int = 1,
    tune: int = 0,
    metrics: Sequence[str] = ("ndcg@1", "ndcg@5", "ndcg@10"),
    tuning_metric: AnyMetric = "ndcg@10",
    out: str | Path | None = None,
    progress: bool = False,
    random_state: int = 0,
    reading: Mapping[str, Any] | None = None,
    tuner: Tuner | None = None,
    group: str | None = "auto",
    **comparing: Any,
) -> Contest:
    """Fit each ranker on each fold's training part, score its test part, compare over folds and seeds.

    `data` is the folder of a known collection (its own folds; all of them unless `folds` says how many), a
    file or a RankingData (then `folds`, 5 unless given, query folds in LETOR's rotation), or a list of
    `(train, valid, test)`. Folds dealt out here keep the queries of one user (segment `user_id`) or session
    (`session_id`) together, where the data know them; `group` names another segment, "query" deals out single
    queries. `rankers` maps names to unfitted rankers, or lists short names ("lightgbm",
    "ridge", …). Each is fitted `seeds` times with `random_state`, `random_state + 1`, …; once if it has
    nothing random. With `tune`, so many trials for every ranker on every fold, judged on its validation
    part by `tuning_metric`, choose its parameters first.

    With `out`, the scores of every cell (ranker, fold, seed) are kept there as `.npy`, under a key of the
    data, the settings, the seed and the libraries' versions: a run that was stopped goes on, and a finished
    one trains nothing. `comparing` goes to `compare` (`baseline=`, `empty=`, `test=`, …).
    """
    check_count("seeds", seeds, least=1)
    check_count("tune", tune)
    name_metrics([*name_metrics(metrics), tuning_metric])  # before anything is trained
    parts = read_folds(data, folds, random_state, dict(reading or {}), group)
    for train, valid, test in parts:
        check_propensity(name_metrics(metrics), test)
        check_propensity([tuning_metric] if tune else [], train if valid is None else valid)
    entrants = rankers if isinstance(rankers, Mapping) else {name: make_ranker(name) for name in rankers}
    if not entrants:
        raise BadInput("rankers must name at least one, such as 'lightgbm'. Got none.")
    asked = ("baseline", "second_baseline", "test", "alpha", "permutations", "empty")
    check_comparing(entrants, metrics, **{name: comparing[name] for name in asked if name in comparing})
    as_metric(tuning_metric)
    find_groups(comparing.get("slices"), [test for _, _, test in parts])
    for ranker in entrants.values():
        ranker._check_settings()
    kept = None if out is None else Path(out) / CELLS
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    empty = str(comparing.get("empty", "drop"))
    judged = tuning_metric if isinstance(tuning_metric, str) else str(as_metric(tuning_metric))
    judging = {"metric": judged, "empty": empty}
    runs = {name: seeds if find_facts(each).random else 1 for name, each in entrants.items()}
    scores: dict[str, list[list[Floats]]] = {name: [] for name in entrants}
    parameters: dict[str, list[Mapping[str, Any]]] = {name: [] for name in entrants}
    seconds = dict.fromkeys(entrants, 0.0)
    total = len(parts) * (sum(runs.values()) + (len(entrants) if tune else 0))
    with show_progress("", total, wanted=progress) as bar:
        for number, (train, valid, test) in enumerate(parts, 1):
            prints = [None if part is None else fingerprint(part) for part in (train, valid, test)]
            for name, ranker in entrants.items():
                cell = _Cell(kept, name, ranker, number, prints)
                chosen: Mapping[str, Any] = {}
                if tune:
                    bar.advance(0, title=f"{name}, fold {number}: tuning")
                    chosen, took = cell.tune(train, valid, tune, judging, random_state, tuner)
                    seconds[name] += took
                    bar.advance()
                found = []
                for seed in range(random_state, random_state + runs[name]):
                    bar.advance(0, title=f"{name}, fold {number}, seed {seed}")
                    given, took = cell.score(train, valid, test, chosen, seed)
                    found.append(given)
                    seconds[name] += took
                    bar.advance()
                scores[name].append(found)
                parameters[name].append(dict(chosen))
    comparing.setdefault("random_state", random_state)
    comparison = compare(scores, [test for _, _, test in parts], metrics, **comparing)
    comparison = _note_groups(comparison, parts)
    return Contest(comparison, parameters, {name: round(took, 3) for name, took in seconds.items()})


def read_folds(
    data: RankingData | str | Path | Sequence[Fold],
    folds: int | None,
    random_state: int,
    reading: Mapping[str, Any],
    group: str | None = "auto",
) -> list[Fold]:
    """(train, valid, test) of each fold, as the collection publishes them or dealt out by query.

    A collection without a validation part gives a fifth of its training queries for it. What is dealt out
    here keeps users or sessions whole (see `find_clusters`, whose `by` is `group`).
    """
    if isinstance(data, RankingData):
        dealt = data.folds(folds or 5, random_state=random_state, valid=True, group=_group(data, group))
        return [(train, valid, test) for train, valid, test in dealt]
    if not isinstance(data, str | Path):
        if not data or any(len(fold) != 3 for fold in data):
            raise BadInput("folds must be (train, valid, test), at least one of them.")
        return list(data)
    from placings.data import find_collection, read

    collection = find_collection(data)
    if collection is None:
        return read_folds(read(data, **reading), folds, random_state, {}, group)
    if not collection.folds:
        numbers: list[int | None] = [None]
    else:
        numbers = list(range(1, (folds or collection.folds) + 1))
    found: list[Fold] = []
    for number in numbers:
        train, test = (read(data, fold=number, split=split, **reading) for split in ("train", "test"))
        if "valid" in collection.splits:
            valid = read(data, fold=number, split="valid", **reading)
        else:
            train, valid = train.split(0.8, 0.2, random_state=random_state, group=_group(train, group))
        found.append((train, valid, test))
    return found


def _group(data: RankingData, group: str | None) -> Ints | None:
    clusters = find_clusters(data, group)
    return None if clusters is None else clusters.codes


def _note_groups(comparison: Comparison, parts: Sequence[Fold]) -> Comparison:
    """Say which users or sessions stand on both sides of a fold, or that none does."""
    found = find_shared([(train, test) for train, _, test in parts])
    if found is None:
        return comparison
    by, shared, count = found
    note = f"Folds: whole {name_units(by)}; none is in training and test at once."
    if shared:
        note = (
            f"Folds: {shared:,} of {count:,} {name_units(by)} are in training and test at once; what was "
            "learned of them helps there."
        )
    return replace(comparison, notes=(*comparison.notes, note))


def find_shared(parts: Sequence[tuple[RankingData, RankingData]]) -> tuple[str, int, int] | None:
    """The segment, and how many of its users or sessions are in training and test, of how many in a test.

    None where training or test know neither users nor sessions.
    """
    shared = count = 0
    by = None
    for train, test in parts:
        clusters = find_clusters([train, test])
        if clusters is None:
            return None
        by = clusters.by
        held = np.unique(clusters.codes[len(train) :])
        count += len(held)
        shared += int(np.isin(held, clusters.codes[: len(train)]).sum())
    return None if by is None else (by, shared, count)


@dataclass(frozen=True)
class _Cell:
    """One ranker on one fold: computed, or taken from where it was kept."""

    kept: Path | None
    name: str
    ranker: Ranker
    fold: int
    prints: Sequence[str | None]

    def tune(
        self,
        train: RankingData,
        valid: RankingData | None,
        trials: int,
        judging: Mapping[str, str],
        seed: int,
        tuner: Tuner | None,
    ) -> tuple[Mapping[str, Any], float]:
        """The best parameters of `trials` trials, and the seconds that finding them took."""
        path = self._path("tuned", {"trials": trials, "seed": seed, **judging}, "json")
        stored = read_facts(path)
        if stored is not None and isinstance(stored.get("parameters"), dict):
            return stored["parameters"], 0.0
        search: Tuner
        if tuner is None:
            from placings.evaluation import tuning

            search = tuning.tune
        else:
            search = tuner
        options: dict[str, Any] = dict(judging)
        began = time.perf_counter()
        found = search(self.ranker, train, valid=valid, trials=trials, random_state=seed, **options)
        best = dict(found.best_params)
        took = time.perf_counter() - began
        if path is not None:
            facts = {"ranker": self.name, "fold": self.fold, "trials": trials, "parameters": best}
            write_facts(path, {**facts, "seconds": took})
        return best, took

    def score(
        self,
        train: RankingData,
        valid: RankingData | None,
        test: RankingData,
        chosen: Mapping[str, Any],
        seed: int,
    ) -> tuple[Floats, float]:
        """Scores of the test part, and the seconds that fitting and scoring took."""
        path = self._path(f"seed{seed}", {"seed": seed, "parameters": dict(chosen)}, "npy")
        stored = read_array(path, test.n_rows)
        if stored is not None:
            return stored, 0.0
        began = time.perf_counter()
        ranker = self._prepare(chosen, seed)
        weight = chosen.get(POSITIVE_WEIGHT)
        if weight is not None:
            from placings.evaluation.trials import weigh_positives

            train = weigh_positives(train, float(weight))
        scores = ranker.fit(train, valid=valid).predict(test)
        took = time.perf_counter() - began
        if path is not None:
            write_array(path, scores)
        return scores, took

    def _prepare(self, chosen: Mapping[str, Any], seed: int) -> Ranker:
        ranker: Ranker = clone(self.ranker)
        if chosen:
            from placings.evaluation.spaces import apply_values

            ranker = apply_values(ranker, chosen)
        if "random_state" in ranker.get_params(deep=False):
            ranker.set_params(random_state=seed)
        return ranker

    def _path(self, what: str, facts: Mapping[str, Any], suffix: str) -> Path | None:
        if self.kept is None:
            return None
        whole = [
            find_versions(),
            type(self.ranker).__name__,
            self.ranker.get_params(deep=False),
            list(self.prints),
            facts,
        ]
        return self.kept / f"{name_cell(self.name, whole, about=f'fold{self.fold}-{what}')}.{suffix}"
