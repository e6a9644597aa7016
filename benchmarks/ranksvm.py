"""RankSVM at size: seconds and peak memory of LinearRanker, and time against LinearSVC on explicit pairs.

    python benchmarks/ranksvm.py [--rows 1000000] [--sparse-rows 200000] [--sample 20] [--json]

Each fit runs in a process of its own, whose peak memory (VmHWM) includes Python, the libraries and the data.
The peer is scikit-learn's LinearSVC on the differences of all pairs of a sample, listed before its clock
starts; its tolerance is lowered by tens until its objective is within 1e-3 of the minimum (which
LinearRanker's gap bounds from below), and the last fit is timed. Both objectives are printed; compiling is
not in the times.

Needs nothing but the development install and 4 GB of memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
import warnings
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import placings as pg
from placings.core import count_threads
from placings.data import RankingData
from placings.rankers import LinearRanker

COLUMNS = 2**20
STORED = 50  # words of a row
LIST = 50  # rows of a query
NEAR = 1e-3
LIMIT_MB = 4096


def make_dense(rows: int) -> RankingData:
    """About `rows` rows of 136 columns with MSLR's character."""
    return pg.make_ranking(max(1, round(rows / 119.0)), random_state=0).data


def make_hashed(rows: int) -> RankingData:
    """Bags of hashed words with a signal: half frequent (a power law), half rare (over all columns)."""
    rng = np.random.default_rng(0)
    frequent = (rng.pareto(1.0, (rows, STORED // 2)) * 50).astype(np.int64)
    rare = rng.integers(0, 10**9, (rows, STORED - STORED // 2))
    words = np.concatenate([frequent, rare], axis=1)
    places = (words * 2_654_435_761 % 2**61 % COLUMNS).astype(np.int32)
    borders = np.arange(rows + 1, dtype=np.int32) * STORED
    counts = np.ones(places.size, dtype=np.float32)
    X = csr_array((counts, places.ravel(), borders), shape=(rows, COLUMNS))
    X.sum_duplicates()
    signal = X @ rng.standard_normal(COLUMNS)
    wish = signal / signal.std() + rng.standard_normal(rows)
    labels = np.digitize(wish, np.quantile(wish, [0.52, 0.84, 0.97, 0.99]))
    return RankingData.from_arrays(X, labels, np.arange(rows) // LIST)


def measure_fit(kind: str, rows: int, loss: str) -> dict[str, Any]:
    """Fit once in this process; what it took."""
    data = make_dense(rows) if kind == "dense" else make_hashed(rows)
    LinearRanker(loss).fit(data[:20])  # compiles
    before = read_peak()
    start = time.perf_counter()
    ranker = LinearRanker(loss).fit(data)
    seconds = time.perf_counter() - start
    used = data.n_features if kind == "dense" else len(np.unique(data.X.indices))
    pairs = sum(int(each) for each in count_pairs(data))
    return {
        "data": kind, "loss": loss, "rows": data.n_rows, "columns": data.n_features, "columns_used": used,
        "queries": data.n_queries, "pairs": pairs, "seconds": seconds, "peak_mb": read_peak(),
        "peak_mb_before_fit": before, "steps": ranker.n_iter_, "objective": ranker.objective_,
        "gap": ranker.gap_ / ranker.objective_, "train_ndcg@10": ranker.score(data),
    }  # fmt: skip


def count_pairs(data: RankingData) -> np.ndarray:
    from placings.rankers import find_pairs

    return find_pairs(data.y, data.offsets).by_query


def read_peak() -> float:
    """The most memory this process has held so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def compare_peer(queries: int, loss: str) -> dict[str, Any]:
    """LinearSVC on all pairs of a sample against LinearRanker, at equal nearness to the minimum."""
    from sklearn.svm import LinearSVC

    data = pg.make_ranking(queries, random_state=1).data
    LinearRanker(loss).fit(data[:5])
    times = []
    for _ in range(3):
        start = time.perf_counter()
        ranker = LinearRanker(loss, tol=NEAR).fit(data)
        times.append(time.perf_counter() - start)
    ours = statistics.median(times)
    best = LinearRanker(loss, tol=1e-7, max_iter=2000).fit(data)
    floor = best.objective_ - best.gap_
    start = time.perf_counter()
    parts = []
    for query in data:
        i, j = np.nonzero(query.y[:, None] > query.y[None, :])
        parts.append((query.X[i].astype(np.float64) - query.X[j]) / np.maximum(ranker.scale_, 1e-300))
    pairs = np.concatenate(parts)
    signs = np.where(np.arange(len(pairs)) % 2, 1.0, -1.0)
    flipped = pairs * signs[:, None]
    listing = time.perf_counter() - start
    price = 1.0 / len(data)
    seconds, objective, tolerance = np.nan, np.nan, 1e4
    while not objective <= floor * (1.0 + NEAR) and tolerance > 1e-5:
        tolerance /= 10.0
        peer = LinearSVC(
            C=price, loss=loss, dual=loss == "hinge", fit_intercept=False, tol=tolerance,
            max_iter=2_000, random_state=0,
        )  # fmt: skip
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it did not converge; its objective is printed
            weights = peer.fit(flipped, signs).coef_[0]
        seconds = time.perf_counter() - start
        short = np.maximum(0.0, 1.0 - pairs @ weights)
        total = short.sum() if loss == "hinge" else (short**2).sum()
        objective = 0.5 * weights @ weights + price * total
    return {
        "loss": loss, "rows": data.n_rows, "queries": len(data), "pairs": len(pairs),
        "pairs_mb": pairs.nbytes / 2**20, "listing_seconds": listing, "minimum_at_least": floor,
        "placings_seconds": ours, "placings_objective": ranker.objective_,
        "linear_svc_seconds": seconds, "linear_svc_objective": objective, "linear_svc_tol": tolerance,
    }  # fmt: skip


def describe_machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return f"{model}, {count_threads()} threads, {platform.system()}, Python {platform.python_version()}"


def run_apart(*arguments: str) -> dict[str, Any]:
    """This file in a process of its own."""
    if sys.stderr.isatty():
        print(f"… {' '.join(arguments)}", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the dense data")
    parser.add_argument("--sparse-rows", type=int, default=200_000)
    parser.add_argument("--sample", type=int, default=20, help="queries whose pairs LinearSVC gets")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--loss", default="hinge", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "peer":
        print(json.dumps(compare_peer(given.sample, given.loss)))
        return
    if given.part:
        rows = given.rows if given.part == "dense" else given.sparse_rows
        print(json.dumps(measure_fit(given.part, rows, given.loss)))
        return
    sizes = ("--rows", str(given.rows), "--sparse-rows", str(given.sparse_rows))
    fits = [
        run_apart("--part", part, "--loss", loss, *sizes)
        for part in ("dense", "sparse")
        for loss in ("hinge", "squared_hinge")
    ]
    peers = [
        run_apart("--part", "peer", "--loss", loss, "--sample", str(given.sample))
        for loss in ("hinge", "squared_hinge")
    ]
    libraries = ("numpy", "numba", "scipy", "scikit-learn")
    facts = {
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "versions": {"placings": version("placings")} | {name: version(name) for name in libraries},
        "fits": fits,
        "limit_mb": LIMIT_MB,
        "within_limit": all(fit["peak_mb"] < LIMIT_MB for fit in fits),
        "against_linear_svc": peers,
    }
    if given.json:
        print(json.dumps(facts, indent=2))
    else:
        show(facts)
    sys.exit(0 if facts["within_limit"] else 1)


def show(facts: dict[str, Any]) -> None:
    print(f"LinearRanker, C=1\n{facts['date']}, {facts['machine']}")
    print(", ".join(f"{name} {number}" for name, number in facts["versions"].items()))
    heads = ("data", "loss", "rows", "columns", "pairs", "steps", "seconds", "peak MB", "gap")
    widths = (6, 13, 9, 9, 11, 5, 7, 7, 7)
    print("\n| " + " | ".join(f"{head:<{width}}" for head, width in zip(heads, widths, strict=True)) + " |")
    print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for fit in facts["fits"]:
        print(
            f"| {fit['data']:<6} | {fit['loss']:<13} | {fit['rows']:>9,} | {fit['columns']:>9,} "
            f"| {fit['pairs']:>11,} | {fit['steps']:>5} | {fit['seconds']:>7.1f} | {fit['peak_mb']:>7.0f} "
            f"| {fit['gap']:.1e} |"
        )
    print(f"\nall under {facts['limit_mb']} MB: {facts['within_limit']}")
    for peer in facts["against_linear_svc"]:
        ratio = peer["linear_svc_seconds"] / peer["placings_seconds"]
        print(
            f"\n{peer['loss']}, {peer['queries']} queries, {peer['rows']:,} rows, {peer['pairs']:,} pairs "
            f"({peer['pairs_mb']:.0f} MB when listed, in {peer['listing_seconds']:.1f} s); the minimum is at "
            f"least {peer['minimum_at_least']:.4f}\n"
            f"  LinearRanker {peer['placings_seconds']:8.2f} s, objective {peer['placings_objective']:.4f}\n"
            f"  LinearSVC    {peer['linear_svc_seconds']:8.2f} s, "
            f"objective {peer['linear_svc_objective']:.4f} (tol {peer['linear_svc_tol']:g}): "
            f"{ratio:.0f} times as long"
        )


if __name__ == "__main__":
    main()
