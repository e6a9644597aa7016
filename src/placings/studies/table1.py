"""`reproduce_table1`: the paper's comparison of feature transforms, on its data or on any other.

Zhuang, Wang, Bendersky and Najork: Feature Transformation for Neural Ranking Models, SIGIR 2020.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from placings.core import (
    BadInput,
    Floats,
    Mismatch,
    UnknownName,
    check_count,
    check_share,
    choose_voice,
    digest_array,
    name_cell,
    plain_value,
    read_array,
    read_facts,
    write_array,
    write_facts,
)
from placings.data import (
    COLLECTIONS,
    Collection,
    RankingData,
    count_missing,
    find_collection,
    plain_folder,
    read,
)
from placings.evaluation import Comparison, compare, fingerprint, list_versions
from placings.metrics import ndcg
from placings.rankers import Ranker, find_versions
from placings.report import gather_shares, measure_effects
from placings.studies.table1_entrants import DEFAULT_TREES, METHODS, Entrant, list_entrants
from placings.studies.table1_result import BY_COLLECTION, METRICS, Table1
from placings.training import Diverged
from placings.transforms import Mixture

DEALT = 5  # query folds of data that have none
HELD_OUT = 0.2  # of the training queries, for validation, where a collection has no such part
Parts: TypeAlias = tuple[RankingData, RankingData, RankingData]  # train, valid, test
Folds: TypeAlias = int | Sequence[int] | None


@dataclass(frozen=True)
class FoldSource:
    """Where the folds come from: their numbers, how to read one, what to call it, what to say of it."""

    name: str
    collection: str | None  # a known collection's name
    numbers: tuple[int, ...]
    load: Callable[[int], Parts]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[int, Parts]]:
        """One fold after the other; nothing is held beyond its turn."""
        for number in self.numbers:
            yield number, self.load(number)


def find_source(
    data: str | Path | RankingData | Sequence[Parts],
    folds: Folds,
    random_state: int,
    reading: Mapping[str, Any],
) -> FoldSource:
    """The folds of a collection's folder, of any other data that `placings.read` reads, or those given.

    `folds` is how many, or which by number. Unless it is given: of MSLR-WEB30K the first, as in the paper; of
    another collection all it has; of other data five query folds, each with the part before its test part
    for validation. A collection without a validation part gives a fifth of its training queries for it.
    Istella's features with illegitimate values are looked for in all of its parts and dropped from all.
    """
    if isinstance(data, RankingData):
        return _deal(data, "data", folds, random_state)
    if not isinstance(data, str | Path):
        return _take_given(list(data), folds)
    path, options = Path(data), dict(reading)
    named = options.get("name")
    if named is not None and named not in COLLECTIONS:
        raise UnknownName("collection", str(named), COLLECTIONS)
    collection = COLLECTIONS[named] if named is not None else find_collection(path) if path.is_dir() else None
    if collection is None:
        return _deal(read(path, **options), path.name, folds, random_state)
    return _open_collection(path, collection, folds, random_state, options)


def slim_test(test: RankingData) -> RankingData:
    """Labels and queries without features: all that is needed of a test part once its rows are scored."""
    empty = np.empty((test.n_rows, 0), dtype=np.float32)
    return RankingData(empty, np.array(test.y), np.array(test.offsets), np.array(test.qids), ())


def _open_collection(
    path: Path, collection: Collection, folds: Folds, random_state: int, options: dict[str, Any]
) -> FoldSource:
    own = re.fullmatch(r"fold([1-5])", plain_folder(path.resolve().name))
    first = int(own[1]) if own else 1
    notes = []
    if not collection.folds:
        numbers: tuple[int, ...] = _choose_numbers(folds, 1, (1,), collection.name)
    elif own:
        numbers = _choose_numbers(folds, 1, (first,), path.name)
    else:
        usual = 1 if collection.name == "MSLR-WEB30K" else collection.folds
        numbers = _choose_numbers(folds, usual, tuple(range(1, collection.folds + 1)), collection.name)
        if folds is None and usual == 1:
            notes.append("Fold1 alone, as in the paper.")
    if collection.illegitimate:
        dropped = _find_illegitimate(path, collection, options)
        options["illegitimate"] = dropped
        if dropped:
            listed = ", ".join(map(str, dropped))
            notes.append(f"{len(dropped)} features hold illegitimate values and are left out: {listed}.")
    if "valid" not in collection.splits:
        notes.append(f"Validation: {HELD_OUT:.0%} of the training queries; the collection has no such part.")

    def load(number: int) -> Parts:
        fold = number if collection.folds else None
        train, test = (read(path, fold=fold, split=split, **options) for split in ("train", "test"))
        if "valid" in collection.splits:
            return train, read(path, fold=fold, split="valid", **options), test
        kept, valid = train.split(1.0 - HELD_OUT, HELD_OUT, random_state=random_state)
        return kept, valid, test

    return FoldSource(path.name, collection.name, numbers, load, tuple(notes))


def _find_illegitimate(path: Path, collection: Collection, options: Mapping[str, Any]) -> list[int]:
    given = options.get("illegitimate")
    if given is not None and not isinstance(given, str):
        return [int(number) for number in given]
    found = np.zeros(collection.n_features, dtype=bool)
    for split in collection.splits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Mismatch)  # said once, when the part is read to be used
            part = read(path, split=split, **{**options, "illegitimate": "missing"})
        found |= count_missing(part) > 0
    return (np.flatnonzero(found) + 1).tolist()


def _deal(data: RankingData, name: str, folds: Folds, random_state: int) -> FoldSource:
    count = DEALT if folds is None or not isinstance(folds, int) else folds
    numbers = _choose_numbers(
        None if isinstance(folds, int) else folds, count, tuple(range(1, count + 1)), name
    )

    def load(number: int) -> Parts:
        dealt = data.folds(count, random_state=random_state, valid=True)
        train, valid, test = next(parts for place, parts in enumerate(dealt, 1) if place == number)
        return train, valid, test

    note = (
        f"{count} query folds (seed {random_state}): one part tests, the one before it validates, "
        "the others train."
    )
    return FoldSource(name, None, numbers, load, (note,))


def _take_given(given: list[Parts], folds: Folds) -> FoldSource:
    if not given or any(len(fold) != 3 for fold in given):
        raise BadInput("folds must be (train, valid, test), at least one of them.")
    numbers = _choose_numbers(folds, len(given), tuple(range(1, len(given) + 1)), "the list given")
    return FoldSource("data", None, numbers, lambda number: given[number - 1])


def _choose_numbers(folds: Folds, usual: int, known: tuple[int, ...], name: str) -> tuple[int, ...]:
    if isinstance(folds, int) and not isinstance(folds, bool) and 1 <= folds <= len(known):
        return known[:folds]
    if folds is None:
        return known[:usual]
    if not isinstance(folds, int) and folds and len(set(folds)) == len(folds) and set(folds) <= set(known):
        return tuple(int(number) for number in folds)
    shown = ", ".join(map(str, known))
    raise BadInput(f"folds must be how many, or which, of the folds of {name}: {shown}. Got {folds!r}.")


FORMAT = 1
CUTOFF = 5  # validation: NDCG@5, what the paper trains
NO_MATTER = ("device", "checkpoint", "checkpoint_every", "verbose", "n_jobs")  # settings that no key holds


@dataclass(frozen=True)
class Fold:
    """One fold's data and what their bytes hash to."""

    number: int
    parts: Parts
    prints: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Result:
    """What a cell left: facts for JSON, and the scores of the test rows."""

    facts: dict[str, Any]
    scores: Floats
    fresh: bool  # trained now, not read

    @property
    def valid(self) -> float:
        """The validation metric; NaN where the training diverged."""
        value = self.facts["valid"]
        return float("nan") if value is None else float(value)


@dataclass(frozen=True)
class Table1Cells:
    """Makes cells, or finds them in `folder`; None keeps nothing."""

    folder: Path | None
    keep: str  # "best" check on validation data, or the "last" step

    def make(
        self, entrant: Entrant, fold: Fold, seed: int, rate: float, *, may_diverge: bool = False
    ) -> Result:
        """The cell of these; with `may_diverge` a training that diverged is a result too (without scores)."""
        path = self._find_path(entrant, fold, seed, rate)
        rows = fold.parts[2].n_rows
        beside = None if path is None else path.with_suffix(".npy")
        stored = read_facts(path)
        if stored is not None and (may_diverge or stored.get("valid") is not None):
            expected = rows if stored.get("valid") is not None else 0
            kept = read_array(beside, expected, str(stored.get("checksum")))
            if kept is not None:
                return Result(stored, kept, fresh=False)
        checkpoint = None if path is None else path.with_suffix(".checkpoint")
        began = time.perf_counter()
        facts: dict[str, Any] = {
            "format": FORMAT, "method": entrant.name, "network": entrant.block, "fold": fold.number,
            "seed": seed, entrant.rate_name: rate,
        }  # fmt: skip
        scores: Floats = np.zeros(0)
        try:
            ranker = self._fit(entrant, fold.parts, seed, rate, checkpoint)
        except Diverged as error:
            if not may_diverge:
                raise Diverged(
                    f"{entrant.name}, fold {fold.number}, seed {seed}, learning rate {rate:g}: {error} "
                    "Cells that are finished stay; give a lower lr, or settings such as clip=1.0, to go on."
                ) from error
            facts |= {"valid": None, "diverged": str(error)}
        else:
            scores = ranker.predict(fold.parts[2])
            facts |= {"valid": find_mean(ranker, fold.parts[1]), **_describe(ranker, fold.parts[0])}
        facts |= {"seconds": round(time.perf_counter() - began, 3), "checksum": digest_array(scores)}
        if path is not None and beside is not None:
            write_array(beside, scores)
            write_facts(path, facts)  # last: a cell without facts is not finished
            mapped = read_array(beside, len(scores), facts["checksum"])  # a study need not hold all cells
            scores = scores if mapped is None else mapped
            if checkpoint is not None:
                checkpoint.unlink(missing_ok=True)
        return Result(plain_value(facts), scores, fresh=True)

    def _fit(self, entrant: Entrant, parts: Parts, seed: int, rate: float, checkpoint: Path | None) -> Ranker:
        train, valid, _ = parts
        ranker: Any = clone(entrant.ranker)
        ranker.set_params(random_state=seed, **{entrant.rate: rate})
        watched: RankingData | None = valid
        if entrant.neural:
            ranker.set_params(checkpoint=None if checkpoint is None else str(checkpoint))
            if self.keep == "last":
                ranker.set_params(holdout=0.0)
                watched = None
        fitted: Ranker = ranker.fit(train, valid=watched)
        return fitted

    def _find_path(self, entrant: Entrant, fold: Fold, seed: int, rate: float) -> Path | None:
        if self.folder is None:
            return None
        params = entrant.ranker.get_params(deep=False)
        settings = {name: value for name, value in params.items() if name not in NO_MATTER}
        whole = [
            FORMAT, find_versions(), type(entrant.ranker).__name__, settings, list(fold.prints),
            seed, rate, self.keep,
        ]  # fmt: skip
        about = f"fold{fold.number}-seed{seed}-{entrant.rate_name}{rate:g}"
        return self.folder / f"{name_cell(f'{entrant.block}_{entrant.name}', whole, about=about)}.json"


def find_mean(ranker: Ranker, data: RankingData) -> float:
    """The mean NDCG@5 over queries with something relevant; 0 if there is none."""
    values = ndcg(ranker.predict(data), data.y, data.offsets, k=CUTOFF)
    return float(np.nanmean(values)) if not np.isnan(values).all() else 0.0


def _describe(ranker: Any, train: RankingData) -> dict[str, Any]:
    """What is worth keeping of a fitted ranker: how its training went, and what its mixture chose."""
    facts: dict[str, Any] = {}
    history: Any = getattr(ranker, "history_", None)
    if hasattr(history, "checks"):
        facts |= {"steps": len(history.loss), "best_step": history.best_step, "checks": history.checks}
        facts["device"] = str(next(ranker.network_.parameters()).device)
        facts["loss"] = history.loss[-1] if history.loss else None
    elif hasattr(ranker, "rounds_"):
        facts["rounds"] = ranker.rounds_
    if isinstance(getattr(ranker, "transform_", None), Mixture):
        facts["mixture"] = gather_shares(ranker).to_dict()
        facts["effects"] = measure_effects(ranker, train).to_dict()
    return facts


def find_means(
    results: Sequence[Result], test: RankingData, metrics: Sequence[str]
) -> list[dict[str, float]]:
    """The mean of each metric for each cell by itself, empty queries dropped: how far seeds lie apart."""
    from placings.metrics import measure

    found = []
    for result in results:
        values = measure(list(metrics), result.scores, test.y, test.offsets, empty="drop")
        found.append(
            {
                name: float(np.nanmean(v)) if not np.isnan(v).all() else float("nan")
                for name, v in values.items()
            }
        )
    return found


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
    linear: bool = True,
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
    part for validation) or a list of (train, valid, test). One fold is in memory at a time. `linear` adds a
    ridge over each transform, over `quantile_normal` for the mixture; `trees` adds LightGBM and CatBoost (or
    those named); `attention` and `groupwise` train every method in these networks too, each compared with its
    own Raw and Log1p.

    Each cell (method, fold, seed) uses the preset with `steps`, `device` and other `settings` of NeuralRanker
    in its place. **The learning rate** is `lr`, or is chosen for each method on the first fold with the first
    seed (of 0.5, 0.1, 0.02 with AdaGrad; 0.003, 0.001, 0.0003 with AdamW; 0.1, 0.05, 0.02 for trees): the one
    with the largest NDCG@5 on validation data, then kept for all folds and seeds. A ridge has a C in place of
    it, of 0.01, 1 and 100, and is fitted once a fold, since seeds do not change it. `keep="best"` scores with
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
        methods, preset=preset, networks=networks, linear=linear, trees=chosen_trees, lr=lr,
        metric=f"ndcg@{CUTOFF}",
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
        Table1Cells(None if folder is None else folder / "cells", keep),
        entrants,
        range(random_state, random_state + seeds),
        choose_voice(progress),
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
        settings=plain_value(
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
        store: Table1Cells,
        entrants: Sequence[Entrant],
        seeds: Sequence[int],
        say: Callable[[str], object],
        total: int,
    ) -> None:
        self.store, self.entrants, self.seeds, self.say, self.total = store, entrants, seeds, say, total
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
            seeds = self.seeds[:1] if entrant.linear else self.seeds
            results += [self._make(entrant, fold, seed, rate) for seed in seeds[len(results) :]]
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
        result = self.store.make(entrant, fold, seed, rate, may_diverge=trial)
        self.done += 1
        verb = f"{result.facts['seconds']:.1f} s" if result.fresh else "kept"
        self.say(
            f"{self.done} of {self.total}: {entrant.key}, fold {fold.number}, seed "
            f"{seed}, {entrant.rate_name} {rate:g}: NDCG@{CUTOFF} on validation {result.valid:.4f}, {verb}"
        )
        return result


def _count_cells(entrants: Sequence[Entrant], seeds: int, folds: int) -> int:
    return sum(len(each.rates) - 1 + (1 if each.linear else seeds) * folds for each in entrants)


def _compare_block(study: _Study, network: str, rule: str, **testing: Any) -> Comparison:
    entries = {name: folds for (block, name), folds in study.scores.items() if block == network}
    baselines = [name for name in BASELINES if name in entries]
    return compare(entries, study.tests, METRICS, baseline=baselines or None, empty=rule, **testing)


def _list_notes(study: _Study, keep: str, lr: float | None) -> list[str]:
    kept = "the best check on validation data" if keep == "best" else "the last step"
    notes = [f"Weights: those of {kept} (the paper does not say)."]
    chosen = {
        "Learning rates": any(study.rates[each.key]["tried"] for each in study.entrants if not each.linear),
        "C of the ridges": any(each.linear for each in study.entrants),
    }
    what = " and ".join(name for name, is_chosen in chosen.items() if is_chosen)
    if what:
        notes.append(
            f"{what}: the best NDCG@{CUTOFF} on the validation data of the first fold with the first "
            "seed, then kept for all folds and seeds."
        )
    if lr is not None:
        notes.append(f"Learning rate of the neural rankers: {lr:g}, as given.")
    return notes
