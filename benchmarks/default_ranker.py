"""The default ranker against tuned peers, on real sets and on made families, with one budget for all.

    python benchmarks/default_ranker.py run --sets real,dev --minutes 2 --processes 2
    python benchmarks/default_ranker.py table --sets real,dev --metric ndcg@10 --format markdown
    python benchmarks/default_ranker.py run --sets dev02 --methods auto --folds 1 --minutes 10 --keep out/kept
    python benchmarks/default_ranker.py curve --sets dev02 --folds 1 --minutes 1,10,60

Sets are named one by one or as groups: `real` (the MSLR sample without the last query of each file, which
may be cut short; OHSUMED-min, WikiTables, MQ2008), `dev`, `final` and `fresh` (the made families). A real
set has three folds by query, each the test once; a made family has one draw for each fold, with 1,000 test
queries.
A family's name with `-large` behind it is that family with 7,000 training queries of 20 rows in the mean;
`dev-large` and `final-large` are four of each part.

Methods: `auto` is `pg.AutoRanker(budget)`. `lightgbm`, `xgboost` and `catboost` are tuned by `pg.tune` (TPE
over the ranker's default space, its own settings first) until the budget is spent: fitted on 80 % of the
training queries, judged on the others by ndcg@10, which also stop a training early. The best setting is
fitted once more in the same way, to know its number of rounds, and then with that many on all training
queries. The clock is looked at between trials, so the last trial and these fits come on top: the seconds are
kept. `ridge` takes its transform and C from the same split and is fitted on everything; `ridge_wide` does so
with all transforms that auto's ridges have, `piecewise` and `query_minmax` too. `neural` is
`pg.NeuralRanker()`, `neural_old` the default before 2026-11-18. Ridges and networks have no budget.

For a curve run one budget after the other, the smallest first. With `--keep` auto goes on from the steps that
the smaller budget took: their time counts, so that its cell is the same but for the clock.

Everyone has one thread; `--device cuda` trains networks on a GPU, where the same seed gives other bits. The
budget is wall-clock time, so run no more processes than there are idle cores; the load and the CPU seconds
are kept with each cell. A cell (set, fold, method, minutes) is one file below --out: a run that was stopped
goes on, also on another machine. Raise `REVISIONS` when a method changes. Scores of final and fresh families
are not printed by `run`.

In the tables queries without anything relevant are left out. Tests flip the signs of paired differences;
over all sets each set has the same weight. Training data are taken as given by them; the test over sets
(Wilcoxon's) is the one that asks what another set would show.

Needs placings[all]; real sets need `$PLACINGS_DATA/ltr`: without it they are skipped, and that is said.
"""

from __future__ import annotations

import argparse
import base64
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import placings as pg
from placings.core import (
    Cell,
    Floats,
    Grid,
    UnknownName,
    adjust_holm,
    estimate_mean,
    flip_signs,
    format_difference,
    format_interval,
    format_mean,
    format_p,
    interval_means,
    keep_cell,
    name_cell,
    percentile_interval,
    read_facts,
    render_grid,
    resample_means,
)
from placings.rankers import find_versions
from placings.simulate import FAMILIES, Family, make_family
from placings.transforms import make_transform

DATA = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "ltr"
OUT = "benchmarks/results/default_ranker"
METRICS = ("ndcg@10", "ndcg@5")
TREES = ("lightgbm", "xgboost", "catboost")
METHODS = ("auto", *TREES, "ridge", "ridge_wide", "neural_old", "neural")
BUDGETED = ("auto", *TREES)  # the minutes belong to the names of their cells
# A method that changed gets the next number, and new cells. 2: trees are fitted on everything at the end, in
# auto too; `neural` has ridges; `neural_old` is what it is called (the first one had the new members).
REVISIONS = {**dict.fromkeys(METHODS, 1), **dict.fromkeys((*TREES, "auto", "neural", "neural_old"), 2)}
TRANSFORMS = ("raw", "gauss", "cdf", "log1p", "quantile_normal")
WIDE = (*TRANSFORMS, "piecewise", "query_minmax")
CS = tuple(10.0**power for power in range(-4, 4))
SPLIT_SEED = 2026
FOLDS = 3  # of a real set: a third is the test of each
DRAWS = 2000  # of the bootstrap
INFERIOR, AHEAD = 0.003, 0.005  # how far a network may be behind a ridge, and how far it should be ahead

# What NeuralRanker() stood for on the morning of 2026-11-18, every setting, so that it can be compared with
# whatever the preset has become.
OLD: dict[str, Any] = {
    "transform": "mixture", "network": "feedforward", "hidden": (32,), "activation": "relu", "dropout": 0.5,
    "batch_norm": True, "norm_input": True, "norm_after": False, "momentum": 0.9, "eps": 1e-5,
    "output_activation": "linear", "input_noise": 0.0, "group_size": 1, "members": 16, "loss": "softmax",
    "draws": 0, "optimizer": "adamw", "lr": 1e-3, "mixture_lr": 1e-2, "optimizer_momentum": 0.0,
    "weight_decay": 1.0, "schedule": "constant", "warmup": 0, "average": 0.0, "clip": 0.0, "steps": 4000,
    "batch": 8, "list_size": 400, "check_every": 25, "patience": 12, "holdout": 0.2, "metric": "ndcg@10",
    "skip": False, "ridge": False, "pieces": 0, "ensemble": "separate", "budget": "none",
}  # fmt: skip
OLD_LARGE = {  # from 1,000 training queries on
    "hidden": (128, 64), "members": 8, "dropout": 0.3, "batch": 32, "steps": 20_000, "check_every": 200,
}  # fmt: skip


# -- sets --------------------------------------------------------------------------------------------------


def read_mslr() -> pg.RankingData:
    parts = [pg.read(DATA / "mslr_sample" / f"{part}.txt.gz") for part in ("train", "vali")]
    return pg.concat([part[:-1] for part in parts])


def read_parts(folder: str) -> pg.RankingData:
    return pg.concat([pg.read(DATA / folder / f"S{number}.txt.gz") for number in range(1, 6)])


REAL: dict[str, Callable[[], pg.RankingData]] = {
    "mslr": read_mslr,
    "ohsumed": lambda: read_parts("ohsumed/Feature-min"),
    "wikitables": lambda: pg.read(DATA / "wikitables/features.csv.gz", qid="query_id", label="rel"),
    "mq2008": lambda: read_parts("mq2008"),
}
LARGE = "-large"  # behind a family's name: with many more training queries
LARGE_QUERIES, LARGE_SIZE = 7000, 20
GROUPS: dict[str, tuple[str, ...]] = {
    "real": tuple(REAL),
    "dev": tuple(name for name, family in FAMILIES.items() if family.part == "development"),
    "final": tuple(name for name, family in FAMILIES.items() if family.part == "final"),
    # for what was built after the final ones had been looked at
    "fresh": tuple(name for name, family in FAMILIES.items() if family.part == "fresh"),
    # an additive truth, products, a tree or a gate, and several, with 10 to 136 features
    "dev-large": tuple(f"{name}{LARGE}" for name in ("dev02", "dev04", "dev09", "dev14")),
    "final-large": tuple(f"{name}{LARGE}" for name in ("final02", "final03", "final08", "final13")),
}


def list_sets(text: str) -> list[str]:
    """Names of sets from names and groups, each once.

    >>> list_sets("wikitables,real")
    ['wikitables', 'mslr', 'ohsumed', 'mq2008']
    """
    found: dict[str, None] = {}
    for word in text.split(","):
        if word not in REAL and find_family(word) is None and word not in GROUPS:
            raise UnknownName("set", word, [*GROUPS, *REAL, *FAMILIES])
        found |= dict.fromkeys(GROUPS.get(word, (word,)))
    return list(found)


def find_family(name: str) -> Family | None:
    """The family of a set, whether it is a large one or not; None for a real set."""
    return FAMILIES.get(name.removesuffix(LARGE))


def find_truth(name: str) -> str:
    """Whether effects add up in a set (`additive`), interact, or nobody knows (`real`)."""
    family = find_family(name)
    return "real" if family is None else family.truth


def is_final(name: str) -> bool:
    family = find_family(name)
    return family is not None and family.part in ("final", "fresh")


def read_fold(name: str, fold: int) -> tuple[pg.RankingData, pg.RankingData]:
    """Training and test queries."""
    if (family := find_family(name)) is not None:
        size = {"queries": LARGE_QUERIES, "mean_size": LARGE_SIZE} if name.endswith(LARGE) else {}
        drawn = make_family(family.name, random_state=fold, **size)
        return drawn.train, drawn.test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = REAL[name]()
    order = np.random.default_rng(SPLIT_SEED).permutation(data.n_queries)
    test = np.sort(order[fold::FOLDS])
    return data[np.setdiff1d(order, test)], data[test]


# -- methods: each gives a fitted ranker and what it chose -------------------------------------------------


def split_inner(train: pg.RankingData, seed: int) -> tuple[pg.RankingData, pg.RankingData]:
    inner, valid = train.split(0.8, 0.2, random_state=seed)
    return inner, valid


def fit_auto(task: Task, train: pg.RankingData) -> tuple[Any, dict[str, Any]]:
    keep = None if task.keep is None else task.keep / f"{task.set}-{task.fold}"
    ranker = pg.AutoRanker(budget=task.seconds, random_state=task.fold, keep=keep).fit(train)
    facts = {"shares": ranker.shares_, "steps": ranker.steps_, "search_seconds": ranker.seconds_}
    return ranker, {**facts, "ended": ranker.told_["notes"][0]}


def fit_tuned(task: Task, train: pg.RankingData) -> tuple[Any, dict[str, Any]]:
    seed = task.fold
    inner, valid = split_inner(train, seed)
    ranker = pg.make_ranker(task.method, random_state=seed, n_jobs=1)
    began = time.perf_counter()
    found = pg.tune(
        ranker, inner, valid, trials=None, timeout=task.seconds, metric="ndcg@10", random_state=seed
    )  # fmt: skip
    searched = time.perf_counter() - began
    rounds = max(1, found.fit(inner, valid=valid).rounds_)
    facts = {
        "settings": found.best_params, "trials": len(found.trials), "rounds": rounds,
        "search_seconds": searched,
    }  # fmt: skip
    return found.best_ranker().set_params(rounds=rounds).fit(train), facts


def fit_ridge(task: Task, train: pg.RankingData) -> tuple[Any, dict[str, Any]]:
    inner, valid = split_inner(train, task.fold)
    best = (-np.inf, "", 0.0)
    for name in WIDE if task.method == "ridge_wide" else TRANSFORMS:
        fitted = make_transform(name).fit(inner)
        learned, judged = fitted.transform_data(inner), fitted.transform_data(valid)
        for C in CS:
            scores = pg.LinearRanker("ridge", C=C).fit(learned).predict(judged)
            best = max(best, (float(np.nanmean(pg.ndcg(scores, judged.y, judged.offsets, k=10))), name, C))
    fitted = make_transform(best[1]).fit(train)
    ranker = pg.LinearRanker("ridge", C=best[2]).fit(fitted.transform_data(train))
    return Transformed(fitted, ranker), {"settings": {"transform": best[1], "C": best[2]}}


def fit_neural(task: Task, train: pg.RankingData) -> tuple[Any, dict[str, Any]]:
    settings: dict[str, Any] = {}
    if task.method == "neural_old":
        settings = OLD | (OLD_LARGE if train.n_queries >= 1000 else {})
    ranker = pg.NeuralRanker(random_state=task.fold, device=task.device, precision="float32", **settings)
    return ranker.fit(train), {"device": task.device}


@dataclass(frozen=True)
class Transformed:
    """A ranker over features that a fitted transform gives."""

    transform: Any
    ranker: Any

    def predict(self, data: pg.RankingData) -> Any:
        return self.ranker.predict(self.transform.transform_data(data))


FITS: dict[str, Callable[[Task, pg.RankingData], tuple[Any, dict[str, Any]]]] = {
    "auto": fit_auto, **dict.fromkeys(TREES, fit_tuned), "ridge": fit_ridge, "ridge_wide": fit_ridge,
    "neural": fit_neural, "neural_old": fit_neural,
}  # fmt: skip


# -- cells -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A cell: one method on one fold of a set with a budget."""

    set: str
    fold: int
    method: str
    minutes: float
    keep: Path | None = field(default=None, compare=False)  # where auto keeps its steps
    device: str = field(default="cpu", compare=False)  # of networks

    @property
    def seconds(self) -> float:
        return 60.0 * self.minutes

    @property
    def name(self) -> str:
        """The cell's name without its digest."""
        budget = f" {self.minutes:g}m" if self.method in BUDGETED else ""
        return f"{self.set} fold{self.fold} {self.method}{budget}"

    @property
    def made_of(self) -> dict[str, Any]:
        """What could change it; neither machine nor versions, so that a run may go on elsewhere."""
        return {
            "set": self.set, "fold": self.fold, "method": self.method, "revision": REVISIONS[self.method],
            "minutes": self.minutes if self.method in BUDGETED else None,
        }  # fmt: skip

    def find(self, out: Path) -> dict[str, Any] | None:
        """What was kept of it, if anything."""
        return read_facts(out / self.set / f"{name_cell(self.name, self.made_of, longest=80)}.json")


def pack_values(values: Floats) -> str:
    """Values of queries as text: float32 of five digits, compressed; NaN stays."""
    rounded = np.round(np.asarray(values, dtype=np.float64), 5).astype("<f4")
    return base64.b64encode(zlib.compress(rounded.tobytes(), 9)).decode()


def unpack_values(text: str) -> Floats:
    """What `pack_values` packed.

    >>> unpack_values(pack_values(np.array([0.5, np.nan])))
    array([0.5, nan])
    """
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f4").astype(np.float64)


def measure_test(ranker: Any, test: pg.RankingData) -> dict[str, Floats]:
    return pg.measure(list(METRICS), ranker.predict(test), test.y, test.offsets)


def make_cell(task: Task) -> dict[str, Any]:
    """Fit, score, and note what it took."""
    train, test = read_fold(task.set, task.fold)
    load = os.getloadavg()[0]
    began, worked = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker, facts = FITS[task.method](task, train)
    took, cpu = time.perf_counter() - began, time.process_time() - worked
    members = {
        name: {metric: float(np.nanmean(values)) for metric, values in measure_test(member, test).items()}
        for name, member in getattr(ranker, "members_", {}).items()
    }
    return {
        "set": task.set, "fold": task.fold, "method": task.method, "minutes": task.minutes,
        "values": {metric: pack_values(values) for metric, values in measure_test(ranker, test).items()},
        "seconds": round(took, 2), "cpu_seconds": round(cpu, 2),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "chosen": facts, "members": members,
        "queries": {"train": train.n_queries, "test": test.n_queries}, "versions": find_versions(),
    }  # fmt: skip


def run_task(task: Task, out: Path) -> dict[str, Any]:
    """The cell, made if it is not there."""
    return keep_cell(out / task.set, task.name, task.made_of, lambda: make_cell(task))


def start_worker(budgeted: bool) -> None:
    """Load the libraries and compile what is compiled, so that no budget pays for it."""
    import torch

    torch.set_num_threads(1)
    data = pg.make_ranking(24, n_features=6, mean_size=8, random_state=0).data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ranker in (
            *(pg.make_ranker(name, rounds=2, n_jobs=1) for name in TREES if budgeted),
            pg.LinearRanker("ridge", transform="quantile_normal"),
            pg.NeuralRanker(hidden=(4,), members=1, steps=2, device="cpu"),
        ):
            measure_test(ranker.fit(data), data)


def list_tasks(
    sets: Sequence[str],
    methods: Sequence[str],
    minutes: float,
    folds: int,
    keep: Path | None = None,
    device: str = "cpu",
) -> list[Task]:
    """Cells by fold, then set, then method: a run that is stopped has something of every set."""
    return [
        Task(name, fold, method, minutes, keep, device)
        for fold in range(folds)
        for name in sets
        for method in methods
    ]


def run(tasks: Sequence[Task], out: Path, processes: int) -> int:
    """Make the cells that are not there; how many failed. With 0 processes, in this one."""
    todo = [task for task in tasks if task.find(out) is None]
    print(f"{len(tasks)} cells, {len(tasks) - len(todo)} of them there, {len(todo)} to do", flush=True)
    failed = 0
    for number, (task, cell) in enumerate(make_cells(todo, out, processes), 1):
        if isinstance(cell, BaseException):
            failed += 1
            said = " ".join(f"{type(cell).__name__}: {cell}".split())[:300]
            print(f"{number}/{len(todo)} {task.name}: failed, {said}", flush=True)
            continue
        mean = float(np.nanmean(unpack_values(cell["values"][METRICS[0]])))
        score = "done" if is_final(task.set) else f"{METRICS[0]} {mean:.4f}"
        print(
            f"{number}/{len(todo)} {task.name}: {score}, {cell['seconds']:.0f} s "
            f"({cell['cpu_seconds']:.0f} s of CPU, load {cell['load'][0]} to {cell['load'][1]})",
            flush=True,
        )
    return failed


def make_cells(
    todo: Sequence[Task], out: Path, processes: int
) -> Iterator[tuple[Task, dict[str, Any] | BaseException]]:
    """Each task with its cell, or with what went wrong, as they are done."""
    if not processes:
        for task in todo:
            try:
                yield task, run_task(task, out)
            except Exception as error:
                yield task, error
        return
    # read by the libraries when they are loaded, which is in the processes that are started here
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLACINGS_THREADS"), "1"))
    budgeted = any(task.method in BUDGETED for task in todo)
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=start_worker, initargs=(budgeted,)
    ) as pool:
        futures = {pool.submit(run_task, task, out): task for task in todo}
        for future in as_completed(futures):
            error = future.exception()
            yield futures[future], future.result() if error is None else error


# -- results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """What the cells say by one metric: set → values `[queries, methods]`, NaN where there is none."""

    methods: tuple[str, ...]
    values: Mapping[str, Floats]
    cells: Mapping[Task, dict[str, Any]]
    missing: int

    def pick(self, name: str, method: str) -> Floats:
        """One method's values of all folds `[queries]`."""
        return self.values[name][:, self.methods.index(method)]

    def subtract(self, name: str, method: str, other: str) -> Floats:
        """Paired differences of one set, NaN left out `[pairs]`."""
        apart = self.pick(name, method) - self.pick(name, other)
        return apart[~np.isnan(apart)]

    def find_pairs(self, method: str, other: str, sets: Sequence[str] | None = None) -> dict[str, Floats]:
        """Paired differences of the sets where both are known."""
        if method not in self.methods or other not in self.methods:
            return {}
        wanted = self.values if sets is None else [name for name in sets if name in self.values]
        found = {name: self.subtract(name, method, other) for name in wanted}
        return {name: apart for name, apart in found.items() if len(apart)}


def collect(tasks: Sequence[Task], out: Path, metric: str) -> Results:
    """Read the cells that are there."""
    cells = {task: cell for task in tasks if (cell := task.find(out)) is not None}
    methods = tuple(dict.fromkeys(task.method for task in tasks))
    values = {}
    for name in dict.fromkeys(task.set for task in cells):
        parts = []
        for fold in sorted({task.fold for task in cells if task.set == name}):
            here = {t.method: unpack_values(c["values"][metric]) for t, c in cells.items()
                    if t.set == name and t.fold == fold}  # fmt: skip
            empty = np.full(len(next(iter(here.values()))), np.nan)
            parts.append(np.stack([here.get(method, empty) for method in methods], axis=1))
        values[name] = np.concatenate(parts)
    return Results(methods, values, cells, len(tasks) - len(cells))


@dataclass(frozen=True)
class Overall:
    """A difference over several sets, each of the same weight."""

    mean: float
    low: float  # of the bootstrap over the queries of each set
    high: float
    p: float  # by flipping signs of queries
    low_sets: float  # of Student's t over sets
    high_sets: float
    p_sets: float  # Wilcoxon's
    sets: int
    ahead: int


def weigh_sets(pairs: Mapping[str, Floats], *, draws: int = DRAWS) -> Overall | None:
    """The mean over sets of their mean differences, with intervals and tests over queries and over sets.

    Signs are flipped query by query, each difference divided by the number of its set's queries, so that
    every set has the same say. None without a set.
    """
    if not pairs:
        return None
    from scipy.stats import wilcoxon

    means = np.array([apart.mean() for apart in pairs.values()])
    drawn = [
        resample_means(apart[:, None], draws, [SPLIT_SEED, number])[:, 0]
        for number, apart in enumerate(pairs.values())
    ]
    low, high = percentile_interval(np.mean(drawn, axis=0))
    weighed = np.concatenate([apart / (len(apart) * len(pairs)) for apart in pairs.values()])
    over_sets = estimate_mean(means)
    some = np.any(means != 0.0)
    return Overall(
        float(means.mean()), float(low), float(high), float(flip_signs(weighed[:, None])[0]),
        over_sets.low, over_sets.high, float(wilcoxon(means).pvalue) if some else 1.0,
        len(means), int((means > 0.0).sum()),
    )  # fmt: skip


def show(header: Sequence[str], rows: Sequence[Sequence[str]], form: str, notes: Sequence[str] = ()) -> str:
    cells = tuple(tuple(Cell(text) for text in row) for row in rows)
    return render_grid(Grid(tuple(header), cells, tuple(notes)), form)


def show_difference(mean: float, low: float, high: float, mark: str = "") -> str:
    return f"{format_difference(mean)}{mark} {format_interval(low, high, signed=True)}"


def print_table(results: Results, metric: str, form: str) -> None:
    """All that the cells can say."""
    print(f"{metric}; {results.missing} of {results.missing + len(results.cells)} cells are missing")
    if not results.values:
        return
    print_means(results, form)
    print_peers(results, form)
    print_hindsight(results, metric, form)
    print_networks(results, form)
    print_seconds(results, form)


def print_means(results: Results, form: str) -> None:
    """Each method's mean on each set, with its interval."""
    rows, dropped = [], 0
    for name, values in results.values.items():
        low, high = interval_means(values, bounds=[(0.0, 1.0)] * len(results.methods))
        known = ~np.isnan(values)
        dropped += int((~known.any(axis=1)).sum())
        means = [values[known[:, place], place].mean() if known[:, place].any() else np.nan
                 for place in range(len(results.methods))]  # fmt: skip
        shown = [
            "-" if np.isnan(mean) else f"{format_mean(mean)} {format_interval(a, b)}"
            for mean, a, b in zip(means, low, high, strict=True)
        ]
        family = find_family(name)
        about = "real" if family is None else family.interaction or "additive"
        rows.append([f"{name} ({about})", str(int(known.any(axis=1).sum())), *shown])
    note = f"{dropped:,} queries without anything relevant were left out; 95 % intervals over queries."
    print(show(("set", "queries", *results.methods), rows, form, [note]), end="\n\n")


def print_peers(results: Results, form: str) -> None:
    """`auto` minus each peer: over all sets, over the real ones, and set by set."""
    if "auto" not in results.methods:
        return
    peers = [method for method in results.methods if method != "auto"]
    for about, sets in (("all sets", None), ("real sets", GROUPS["real"])):
        found = {peer: weigh_sets(results.find_pairs("auto", peer, sets)) for peer in peers}
        there = {peer: overall for peer, overall in found.items() if overall is not None}
        if not there:
            continue
        p = adjust_holm([overall.p for overall in there.values()])
        p_sets = adjust_holm([overall.p_sets for overall in there.values()])
        rows = [
            [
                f"auto − {peer}", str(each.sets), str(each.ahead), format_difference(each.mean),
                format_interval(each.low, each.high, signed=True), format_p(p[place]),
                format_interval(each.low_sets, each.high_sets, signed=True), format_p(p_sets[place]),
            ]
            for place, (peer, each) in enumerate(there.items())
        ]  # fmt: skip
        head = (about, "sets", "ahead on", "mean", "over queries", "p (flips)", "over sets", "p (Wilcoxon)")
        note = "Each set has the same weight; p after Holm over the peers."
        print(show(head, rows, form, [note]), end="\n\n")
    print_single(results, "auto", peers, form)


def print_single(results: Results, method: str, peers: Sequence[str], form: str) -> None:
    """A method minus each peer on every set, Holm over all of these tests."""
    pairs = {
        (name, peer): apart for peer in peers for name, apart in results.find_pairs(method, peer).items()
    }
    if not pairs:
        return
    p = dict(
        zip(pairs, adjust_holm([flip_signs(apart[:, None])[0] for apart in pairs.values()]), strict=True)
    )
    rows, behind = [], []
    for name in results.values:
        row = [name]
        for peer in peers:
            apart = pairs.get((name, peer))
            if apart is None:
                row.append("-")
                continue
            low, high = interval_means(apart[:, None])
            mark = "" if p[name, peer] >= 0.05 else "▲" if apart.mean() > 0.0 else "▼"
            row.append(show_difference(float(apart.mean()), low[0], high[0], mark))
            if mark == "▼":
                behind.append(f"{peer} on {name} (p = {format_p(p[name, peer])})")
        rows.append(row)
    said = f"{method} is significantly behind {', '.join(behind) or 'nobody'}"
    notes = [f"▲ ▼: ahead or behind, p < 0.05 after Holm over all {len(pairs)} tests; {said}."]
    print(show((f"{method} minus", *peers), rows, form, notes), end="\n\n")


def print_hindsight(results: Results, metric: str, form: str) -> None:
    """How far the blend is from the member that the test shows to be best, fold by fold."""
    found: dict[str, list[tuple[float, str, float]]] = {}
    for task, cell in results.cells.items():
        if task.method == "auto" and cell["members"]:
            own = float(np.nanmean(unpack_values(cell["values"][metric])))
            best = max(cell["members"], key=lambda name: cell["members"][name][metric])
            found.setdefault(task.set, []).append((own, best, own - cell["members"][best][metric]))
    if not found:
        return
    rows = [
        [name, format_mean(float(np.mean([own for own, _, _ in folds]))),
         format_difference(float(np.mean([apart for _, _, apart in folds]))),
         ", ".join(best for _, best, _ in folds)]
        for name, folds in found.items()
    ]  # fmt: skip
    total = estimate_mean([np.mean([apart for _, _, apart in folds]) for folds in found.values()])
    note = f"Mean over sets {show_difference(total.mean, total.low, total.high)}."
    head = ("auto", "mean", "minus its best member in hindsight", "which that was, by fold")
    print(show(head, rows, form, [note]), end="\n\n")


def print_networks(results: Results, form: str) -> None:
    """Networks against ridges, where effects add up, interact, or nobody knows; then set by set."""
    rows = []
    for method, line, truth in product(
        ("neural", "neural_old"), ("ridge", "ridge_wide"), ("additive", "interacting", "real")
    ):
        sets = [name for name in results.values if find_truth(name) == truth]
        found = weigh_sets(results.find_pairs(method, line, sets))
        if found is None:
            continue
        if truth == "real":
            verdict = "-"
        elif truth == "additive":
            verdict = f"not behind by {INFERIOR}: {'shown' if found.low > -INFERIOR else 'not shown'}"
        else:
            shown = "shown" if found.low > AHEAD else "the mean only" if found.mean > AHEAD else "no"
            verdict = f"ahead by {AHEAD}: {shown}"
        rows.append(
            [f"{method} − {line}, {truth}", str(found.sets), format_difference(found.mean),
             format_interval(found.low, found.high, signed=True),
             format_interval(found.low_sets, found.high_sets, signed=True), verdict]
        )  # fmt: skip
    if rows:
        note = "A verdict is that of the interval over queries, each set of the same weight."
        head = ("networks", "sets", "mean", "over queries", "over sets", "verdict")
        print(show(head, rows, form, [note]), end="\n\n")
    lines = [line for line in ("ridge", "ridge_wide") if line in results.methods]
    print_single(results, "neural", lines, form)


def print_seconds(results: Results, form: str) -> None:
    """What it took, and on how busy a machine."""
    rows = []
    for method in results.methods:
        cells = [cell for task, cell in results.cells.items() if task.method == method]
        if cells:
            seconds = [cell["seconds"] for cell in cells]
            rows.append(
                [method, str(len(cells)), f"{np.median(seconds):.0f}", f"{max(seconds):.0f}",
                 f"{np.median([cell['cpu_seconds'] for cell in cells]):.0f}",
                 f"{max(max(cell['load']) for cell in cells):.1f}"]
            )  # fmt: skip
    head = ("seconds", "cells", "median", "longest", "median of CPU", "highest load")
    print(show(head, rows, form))


def print_curve(
    sets: Sequence[str], minutes: Sequence[float], folds: int, out: Path, metric: str, form: str
) -> None:
    """What more time gives: `auto` with each budget, over the folds that all budgets have."""
    rows = []
    for name in sets:
        found = {
            budget: collect(list_tasks([name], ["auto"], budget, folds), out, metric) for budget in minutes
        }
        first: Floats | None = None
        for budget, results in found.items():
            if results.missing:
                rows.append([f"{name}, {budget:g} min", f"{results.missing} cells are missing", *"----"])
                continue
            values = results.pick(name, "auto")
            low, high = interval_means(values[:, None], bounds=[(0.0, 1.0)])
            more = ""
            if first is not None:
                ends = interval_means((values - first)[:, None])
                more = show_difference(float(np.nanmean(values - first)), ends[0][0], ends[1][0])
            first = values if first is None else first
            chosen = [cell.get("chosen", {}) for cell in results.cells.values()]
            steps = [each.get("steps", 0) for each in chosen]
            took = [each.get("search_seconds", 0.0) for each in chosen]
            rows.append(
                [f"{name}, {budget:g} min", format_mean(float(np.nanmean(values))),
                 format_interval(low[0], high[0]), more, f"{np.mean(steps):.0f}", f"{np.mean(took):.0f}"]
            )  # fmt: skip
    note = (
        "Steps in all, and the seconds of this fit alone, without those of steps that --keep had kept. "
        "Means over folds. As many steps with more time: the schedule was at its end."
    )
    print(show(("auto", metric, "interval", "minus the first budget", "steps", "s"), rows, form, [note]))


# -- the edge ----------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("command", choices=("run", "table", "curve"))
    options.add_argument("--sets", default="real,dev", help="names and groups, with commas between them")
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument("--minutes", default="2", help="the budget; several for curve")
    options.add_argument(
        "--folds", type=int, default=FOLDS, choices=range(1, FOLDS + 1), help="the first so many"
    )
    options.add_argument("--out", type=Path, default=Path(OUT))
    options.add_argument(
        "--processes", type=int, default=1, help="cells at once; 0: in this process, with its threads"
    )
    options.add_argument(
        "--keep", type=Path, help="a folder for auto's steps, which a larger budget goes on from"
    )
    options.add_argument("--device", default="cpu", help="where networks train, in float32")
    options.add_argument("--metric", choices=METRICS, default=METRICS[0])
    options.add_argument("--format", choices=("text", "markdown", "latex", "html"), default="text")
    return options.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse(arguments)
    sets, methods = list_sets(chosen.sets), chosen.methods.split(",")
    for method in methods:
        if method not in METHODS:
            raise UnknownName("method", method, METHODS)
    minutes = [float(each) for each in chosen.minutes.split(",")]
    if chosen.command == "curve":
        print_curve(sets, minutes, chosen.folds, chosen.out, chosen.metric, chosen.format)
        return 0
    if len(minutes) > 1:
        raise SystemExit(
            f"run and table take one budget, curve takes several. Got --minutes {chosen.minutes}."
        )
    tasks = list_tasks(sets, methods, minutes[0], chosen.folds, chosen.keep, chosen.device)
    if chosen.command == "table":
        print_table(collect(tasks, chosen.out, chosen.metric), chosen.metric, chosen.format)
        return 0
    if not DATA.exists() and any(name in REAL for name in sets):
        print(f"skipped: {DATA} is not there, so no real set is run. Set PLACINGS_DATA to what holds ltr/.")
        tasks = [task for task in tasks if task.set not in REAL]
    return 1 if run(tasks, chosen.out, chosen.processes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
