"""ndcg@10, mrr@10 and map@10 together: placings against ranx and pytrec_eval, in one run.

    python benchmarks/metrics.py [--queries 30000] [--rows 100] [--repeat 5] [--json]

Peers get their own data structures before the clock starts. ranx is timed twice, warmed up: as its users
call it, on `Qrels` and `Run`, and as bare parallel kernels on the lists it makes of these. It ranks when a
`Run` is built, so its ranking is in neither time. placings is timed on unsorted arrays, its checks and its
ranking included.

Needs ranx and pytrec_eval, which the development install brings.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import count_threads
from placings.metrics import measure

NAMES = ["ndcg@10", "mrr@10", "map@10"]
Values = dict[str, np.ndarray]


def make_rows(queries: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct scores, since peers break ties otherwise, and MSLR's shares of grades."""
    rng = np.random.default_rng(0)
    scores = rng.random((queries, rows))
    labels = rng.choice(5, size=(queries, rows), p=[0.515, 0.325, 0.134, 0.018, 0.008])
    return scores.ravel(), labels.ravel().astype(np.float64), np.arange(queries + 1) * rows


def time_it(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Median seconds of `repeat` calls after one that warms up, and the last result."""
    result = call()
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def run(queries: int, rows: int, repeat: int) -> dict[str, float]:
    """Seconds of each way; raises where the values differ."""
    scores, labels, offsets = make_rows(queries, rows)
    seconds: dict[str, float] = {}

    def ask_placings() -> Values:
        return measure(NAMES, scores, labels, offsets, gain="linear", empty="zero")

    seconds["placings"], ours = time_it(ask_placings, repeat)

    note("building dictionaries for the peers")
    ids = [f"d{row:05}" for row in range(rows)]
    qids = [f"q{query:06}" for query in range(queries)]
    run_of = {
        q: dict(zip(ids, row, strict=True))
        for q, row in zip(qids, scores.reshape(-1, rows).tolist(), strict=True)
    }
    grades = labels.astype(int).reshape(-1, rows).tolist()
    qrels_of = {q: dict(zip(ids, row, strict=True)) for q, row in zip(qids, grades, strict=True)}

    note("pytrec_eval")
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(qrels_of, {"ndcg_cut.10", "recip_rank", "map_cut.10"})
    seconds["pytrec_eval"], by_query = time_it(lambda: evaluator.evaluate(run_of), repeat)
    theirs = {
        name: np.array([by_query[q][key] for q in qids])
        for name, key in zip(NAMES, ("ndcg_cut_10", "recip_rank", "map_cut_10"), strict=True)
    }
    theirs["mrr@10"] = np.where(theirs["mrr@10"] >= 1 / 10, theirs["mrr@10"], 0.0)  # it has no cutoff
    check("pytrec_eval", ours, theirs)

    note("ranx, which takes a while to build its own")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ranx

        qrels, ranked = ranx.Qrels(qrels_of), ranx.Run(run_of)
        options = {"return_mean": False}
        seconds["ranx"], values = time_it(
            lambda: ranx.evaluate(qrels, ranked, NAMES, **options), max(1, repeat // 2)
        )
        check("ranx", ours, values)
        lists = qrels.to_typed_list(), ranked.to_typed_list()
        seconds["ranx, lists made and sorted"], values = time_it(
            lambda: ranx.evaluate(*lists, NAMES, **options), repeat
        )
        check("ranx", ours, values)
    return seconds


def check(peer: str, ours: Values, theirs: Values) -> None:
    for name in NAMES:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-9, err_msg=f"{peer} {name}")


def note(text: str) -> None:
    if sys.stderr.isatty():
        print(f"… {text}", file=sys.stderr)


def describe_machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return f"{model}, {count_threads()} threads, {platform.system()}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=30_000)
    parser.add_argument("--rows", type=int, default=100, help="rows of each query")
    parser.add_argument("--repeat", type=int, default=5, help="medians of this many")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    seconds = run(given.queries, given.rows, given.repeat)
    libraries = ("numpy", "numba", "ranx", "pytrec_eval-terrier")
    what = f"{', '.join(NAMES)} of {given.queries} queries x {given.rows} rows"
    facts = {
        "what": f"{what}, medians of {given.repeat}",
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        "versions": {"placings": version("placings")} | {name: version(name) for name in libraries},
        "seconds": seconds,
        "queries_per_second": {name: given.queries / each for name, each in seconds.items()},
        "placings_is_faster_by": {name: each / seconds["placings"] for name, each in seconds.items()},
        "values_agree_to": 1e-9,
    }
    if given.json:
        print(json.dumps(facts, indent=2))
        return
    print(f"{facts['what']}\n{facts['date']}, {facts['machine']}")
    print(", ".join(f"{name} {number}" for name, number in facts["versions"].items()))
    print(f"\n| {'':<28} | seconds | queries/s | placings is faster by |")
    print(f"|{'-' * 30}|--------:|----------:|----------------------:|")
    for name, each in seconds.items():
        speed, ratio = given.queries / each, each / seconds["placings"]
        print(f"| {name:<28} | {each:7.3f} | {speed:9,.0f} | {ratio:20.1f}x |")
    print("\nvalues agree to 1e-9")


if __name__ == "__main__":
    main()
