"""`reproduce_table1`: the paper's comparison of feature transforms, on its data or on any other.

Zhuang, Wang, Bendersky and Najork: Feature Transformation for Neural Ranking Models, SIGIR 2020.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placings.data.ranking import RankingData
from placings.errors import BadInput, UnknownName
from placings.evaluation.comparison import compare
from placings.evaluation.runs import as_plain, fingerprint, list_versions
from placings.evaluation.significance import check_count, check_share
from placings.evaluation.verdicts import Comparison
from placings.studies.table1_cells import CUTOFF, Fold, Result, Workshop, find_means
from placings.studies.table1_entrants import DEFAULT_TREES, METHODS, Entrant, list_entrants
from placings.studies.table1_folds import Folds, Parts, find_source, slim_test
from placings.studies.table1_paper import BY_COLLECTION, METRICS
from placings.studies.table1_result import Table1
from placings.training.plans import Diverged

BASELINES = ("Raw", "Log1p")  # † and ‡
RULES = ("zero", "drop")  # TF-Ranking's, which the paper's numbers come from; then ours
KEEP = ("best", "last")


def reproduce_table1(
    path_or_data: str | Path | RankingData | Sequence[Parts],
    *,
    methods: Sequence[str] = METHODS,
    seeds: int = 3,
    steps: int | None = None,
    device: str | None = None,
    folds: Folds = None,
    trees: bool | Sequence[str] = False,
    attention: bool = False,
    groupwise: bool = False,
    lr: float | None = None,
    preset: str = "zhuang2020",
    keep: str = "best",
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    random_state: int = 0,
    alpha: float = 0.05,
    bootstrap: int = 1000,
    permutations: int = 10_000,
    reading: Mapping[str, Any] | None = None,
    progress: bool | Callable[[str], object] = False,
) -> Table1:
    """Train a neural ranker over each transform, compare them as the paper's Table 1 does, keep all of it.

    `path_or_data` is the folder of MSLR-WEB30K (its Fold1 unless `folds` says how many or which), of Istella
    or another known collection, any data that `placings.read` reads, a RankingData (5 query folds, with one
    part for validation) or a list of (train, valid, test). One fold is in memory at a time. `trees` adds
    LightGBM and CatBoost (or those named); `attention` and `groupwise` train every method in these networks
    too, each compared with its own Raw and Log1p.

    Each cell (method, fold, seed) uses the preset with `steps`, `device` and other `settings` of NeuralRanker
    in its place. **The learning rate** is `lr`, or is chosen for each method on the first fold with the first
    seed (of 0.5, 0.1, 0.02 with AdaGrad; 0.003, 0.001, 0.0003 with AdamW; 0.1, 0.05, 0.02 for trees): the one
    with the largest NDCG@5 on validation data, then kept for all folds and seeds. `keep="best"` scores with
    the weights of the best check on validation data, "last" with those of the last step; the paper says
    neither.

    Marks: † better than Raw, ‡ than Log1p (▼, ▽ worse), by a randomisation test over queries, seeds averaged
    first, Holm over methods × metrics, at `alpha`; for both rules of queries with nothing relevant.

    With `out`, a folder, every finished cell is kept there (JSON and scores) and a neural one in the making
    has a checkpoint: a study that was stopped goes on, and a finished one trains nothing. `table1.json`,
    `.md`, `.tex`, `.txt` and, with matplotlib, `figure2.svg` are written at the end. `progress` says each
    cell on stderr, or to a function.
    """
    check_count("seeds", seeds, least=1)
    if keep not in KEEP:
        raise UnknownName("rule of which weights to keep", str(keep), KEEP)
    if lr is not None and not lr > 0.0:
        raise BadInput(f"lr must be above 0. Got {lr!r}.")
    given = {**(settings or {}), "steps": steps, "device": device}
    asked = {name: value for name, value in given.items() if value is not None}
    networks = ["feedforward", *["attention"] * attention, *["groupwise"] * groupwise]
    chosen_trees = DEFAULT_TREES if trees is True else tuple(trees or ())
    entrants = list_entrants(
        methods, preset=preset, networks=networks, trees=chosen_trees, lr=lr, metric=f"ndcg@{CUTOFF}",
        settings={"verbose": progress is True, **asked},
    )  # fmt: skip
    check_share("alpha", alpha)
    for entrant in entrants:
        entrant.ranker._check_settings()
    source = find_source(path_or_data, folds, random_state, reading or {})
    folder = None if out is None else Path(out)
    if folder is not None:
        (folder / "cells").mkdir(parents=True, exist_ok=True)
    study = _Study(
        Workshop(None if folder is None else folder / "cells", keep),
        entrants,
        range(random_state, random_state + seeds),
        _choose_voice(progress),
        _count_cells(entrants, seeds, len(source.numbers)),
    )
    sizes = [study.run_fold(number, parts) for number, parts in source]
    blocks = {
        network: {
            rule: _compare_block(
                study, network, rule, alpha=alpha, bootstrap=bootstrap, permutations=permutations,
                random_state=random_state,
            )
            for rule in RULES
        }
        for network in networks
        if any(each.block == network for each in entrants)
    }  # fmt: skip
    table = Table1(
        name=source.name,
        paper=BY_COLLECTION.get(source.collection or ""),
        blocks=blocks,
        rates=study.rates,
        cells=tuple(study.facts),
        settings=as_plain(
            {
                "data": source.name, "folds": source.numbers, "sizes": sizes, "methods": list(methods),
                "seeds": seeds, "preset": preset, "settings": asked, "keep": keep, "lr": lr,
                "random_state": random_state, "versions": list_versions(),
            }
        ),
        notes=(*source.notes, *_list_notes(study, keep, lr)),
    )  # fmt: skip
    if folder is not None:
        table.save(folder)
    return table


class _Study:
    """The cells of a study as they come: scores by method and fold, rates, facts."""

    def __init__(
        self,
        workshop: Workshop,
        entrants: Sequence[Entrant],
        seeds: Sequence[int],
        say: Callable[[str], object],
        total: int,
    ) -> None:
        self.workshop, self.entrants, self.seeds, self.say, self.total = workshop, entrants, seeds, say, total
        self.done = 0
        self.rates: dict[str, dict[str, Any]] = {}
        self.first: dict[str, Result] = {}
        self.facts: list[dict[str, Any]] = []
        self.tests: list[RankingData] = []
        self.scores: dict[tuple[str, str], list[list[Any]]] = {}

    def run_fold(self, number: int, parts: Parts) -> dict[str, int]:
        """Every entrant with every seed on one fold; the sizes of its parts."""
        fold = Fold(number, parts, tuple(fingerprint(part) for part in parts))
        test = slim_test(parts[2])
        self.tests.append(test)
        for entrant in self.entrants:
            rate = self._choose_rate(entrant, fold)
            tried = self.first.pop(entrant.key, None)  # the chosen trial is a cell
            results = [] if tried is None else [tried]
            results += [self._make(entrant, fold, seed, rate) for seed in self.seeds[len(results) :]]
            self.scores.setdefault((entrant.block, entrant.name), []).append(
                [each.scores for each in results]
            )
            means = find_means(results, test, METRICS)
            self.facts += [{**each.facts, "test": mean} for each, mean in zip(results, means, strict=True)]
        names = ("train", "valid", "test")
        return {f"{name} queries": part.n_queries for name, part in zip(names, parts, strict=True)} | {
            f"{name} rows": part.n_rows for name, part in zip(names, parts, strict=True)
        }

    def _choose_rate(self, entrant: Entrant, fold: Fold) -> float:
        """The rate with the best validation value on the first fold with the first seed; then that one."""
        key = entrant.key
        if key in self.rates:
            return float(self.rates[key]["chosen"])
        if len(entrant.rates) == 1:
            self.rates[key] = {"chosen": entrant.rates[0], "tried": {}}
            return entrant.rates[0]
        trials = {rate: self._make(entrant, fold, self.seeds[0], rate, trial=True) for rate in entrant.rates}
        tried = {rate: trial.valid for rate, trial in trials.items()}
        known = {rate: value for rate, value in tried.items() if not np.isnan(value)}
        if not known:
            raise Diverged(
                f"{entrant.name} diverged on fold {fold.number} with every learning rate that was tried "
                f"({', '.join(f'{rate:g}' for rate in tried)}). Give a lower lr, or settings such as "
                "clip=1.0."
            )
        best = max(known, key=lambda rate: known[rate])
        self.rates[key] = {"chosen": best, "tried": {f"{rate:g}": value for rate, value in tried.items()}}
        self.first[key] = trials[best]
        return best

    def _make(self, entrant: Entrant, fold: Fold, seed: int, rate: float, *, trial: bool = False) -> Result:
        result = self.workshop.make(entrant, fold, seed, rate, may_diverge=trial)
        self.done += 1
        verb = f"{result.facts['seconds']:.1f} s" if result.fresh else "kept"
        self.say(
            f"{self.done} of {self.total}: {entrant.key}, fold {fold.number}, seed "
            f"{seed}, lr {rate:g}: NDCG@{CUTOFF} on validation {result.valid:.4f}, {verb}"
        )
        return result


def _count_cells(entrants: Sequence[Entrant], seeds: int, folds: int) -> int:
    return sum(len(each.rates) - 1 + seeds * folds for each in entrants)


def _choose_voice(progress: bool | Callable[[str], object]) -> Callable[[str], object]:
    if callable(progress):
        return progress
    if not progress:
        return lambda line: None
    return lambda line: print(line, file=sys.stderr, flush=True)


def _compare_block(study: _Study, network: str, rule: str, **testing: Any) -> Comparison:
    entries = {name: folds for (block, name), folds in study.scores.items() if block == network}
    baselines = [name for name in BASELINES if name in entries]
    return compare(entries, study.tests, METRICS, baseline=baselines or None, empty=rule, **testing)


def _list_notes(study: _Study, keep: str, lr: float | None) -> list[str]:
    kept = "the best check on validation data" if keep == "best" else "the last step"
    notes = [f"Weights: those of {kept} (the paper does not say)."]
    if any(each["tried"] for each in study.rates.values()):
        notes.append(
            f"Learning rates: the best NDCG@{CUTOFF} on the validation data of the first fold with the first "
            "seed, then kept for all folds and seeds."
        )
    if lr is not None:
        notes.append(f"Learning rate of the neural rankers: {lr:g}, as given.")
    return notes
