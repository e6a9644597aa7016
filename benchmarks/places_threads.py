"""Searches of the embedded engine by the number of threads, in a generated index; and what opening it costs.

    python benchmarks/places_threads.py [--places 100000] [--seconds 2] [--rounds 3] [--json]

Threads ask texts of 2 letters and more, half of them with a focus, as quickly as they can. Rounds go through
all numbers of threads in turn, so that a machine with other work slows all alike; the median is printed.
More threads must not make it slower: Python's global lock lets one search run at a time anyway. Opening the
index reads the file once for its checksum.

Needs nothing but the development install.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

from placings.places import Place, SqliteEngine, build_index

THREADS = (1, 2, 4, 8)
HEADS = (
    "Bahn",
    "Haupt",
    "Kaiser",
    "Schloss",
    "Markt",
    "Berg",
    "Linden",
    "Garten",
    "Wald",
    "See",
    "Rosen",
    "Mühl",
)
TAILS = ("straße", "platz", "weg", "allee", "hof", "berg", "tal", "dorf", "ring", "gasse", "ufer", "brücke")
TOWNS = [
    a + b + c for a in HEADS for b in ("", "en", "er") for c in ("burg", "heim", "ingen", "hausen", "au")
]


def make_places(count: int, seed: int = 1) -> list[Place]:
    """Localities, stops and addresses of made-up towns, a few of them far more popular than the rest."""
    source = random.Random(seed)
    places = []
    for number in range(count):
        town = source.choice(TOWNS)
        point = (source.uniform(47, 55), source.uniform(6, 15))
        weight = source.paretovariate(1)
        if number % 3:
            name = f"{source.choice(HEADS)}{source.choice(TAILS)} {source.randrange(1, 200)}"
            places.append(
                Place(f"{number}", name, *point, source.choice(["stop", "address"]), town, weight=weight)
            )
        else:
            places.append(Place(f"{number}", town, *point, "locality", town, weight=weight))
    return places


def make_queries(count: int = 400, seed: int = 2) -> list[tuple[str, tuple[float, float] | None]]:
    """Beginnings of a street and a town, every other one with a focus."""
    source = random.Random(seed)
    queries = []
    for number in range(count):
        text = f"{source.choice(HEADS)}{source.choice(TAILS)} {source.choice(TOWNS)}"
        focus = (source.uniform(47, 55), source.uniform(6, 15)) if number % 2 else None
        queries.append((text[: source.randrange(2, len(text))], focus))
    return queries


def count_searches(engine: SqliteEngine, threads: int, seconds: float) -> float:
    """Searches a second of so many threads together."""
    queries, done = make_queries(), [0] * threads
    stop = time.perf_counter() + seconds

    def work(number: int) -> None:
        source = random.Random(number)
        while time.perf_counter() < stop:
            engine.search(*source.choice(queries))
            done[number] += 1

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    start = time.perf_counter()
    for each in running:
        each.start()
    for each in running:
        each.join()
    return sum(done) / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        path = build_index(make_places(chosen.places), Path(folder) / "places.db")
        built = time.perf_counter() - start
        opened = []
        for _ in range(5):
            start = time.perf_counter()
            SqliteEngine(path).close()
            opened.append(time.perf_counter() - start)
        with SqliteEngine(path) as engine:
            count_searches(engine, 1, 0.5)
            rounds = [
                {threads: count_searches(engine, threads, chosen.seconds) for threads in THREADS}
                for _ in range(chosen.rounds)
            ]
        size = path.stat().st_size
    rates = {threads: statistics.median(each[threads] for each in rounds) for threads in THREADS}
    if chosen.json:
        print(json.dumps({"places": chosen.places, "rates": rates, "open_s": min(opened), "bytes": size}))
        return
    what = f"{chosen.places:,} places, {size / 2**20:.0f} MiB"
    print(f"{what}, built in {built:.1f} s, opened in {min(opened):.3f} s")
    for threads, rate in rates.items():
        print(f"{threads} threads: {rate:,.0f} searches/s")


if __name__ == "__main__":
    main()
