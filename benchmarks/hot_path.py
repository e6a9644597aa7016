"""CPU time of a live request, stage by stage: the embedded engine, features, model, guard, and all between.

    python benchmarks/hot_path.py [--demo out/demo] [--rounds 9] [--json]

Ten short beginnings on the demo's index of GeoNames, 40 hits each, with a focus; then a list of 100 items
with 136 numbers each, ordered by 300 trees. Milliseconds of CPU on one core, so that other work on the
machine counts as little as it can, and the median of the rounds. Three states of the process:

first   the first time that anything is asked
new     the text was never asked, its items were (it was asked in other capitals)
known   everything was asked before

Measured on the 2 shared cores of the development machine, one thread, rounds of one run:

                    before    first      new    known      goal
    engine            4.98     5.44     1.55     1.33         2
    features          3.02     2.11     1.11     1.05
    model             2.28     0.86     0.53     0.51
    guard             0.38     0.28     0.12     0.11
    rest              0.20     0.13     0.14     0.14
    re-rank           5.88     3.38     1.90     1.81         3
    100 × 136        13.61     2.30        –     1.21         2

"before" is the commit before this way was made, known texts; with the libraries' own number of threads, which
spin while they wait, its re-ranking took 64 ms.

Needs what `make demo` leaves, or the folder that --demo names; the list of numbers needs nothing.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PLACINGS_THREADS"):
    os.environ[_name] = "1"  # before a library starts threads, as a worker of `placings serve` does

import argparse  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

import placings as pg  # noqa: E402
from placings.features import FeatureSet, Number  # noqa: E402
from placings.rankers import make_ranker  # noqa: E402
from placings.rerank import Request, Reranker  # noqa: E402

TEXTS = ("karls", "ber", "new", "san", "par", "lon", "mos", "tok", "bar", "mun")
FOCUS, K = (49.0, 8.4), 40
STAGES = ("engine", "features", "model", "guard", "rest", "re-rank")
BEFORE = {"engine": 4.98, "features": 3.02, "model": 2.28, "guard": 0.38, "rest": 0.20, "re-rank": 5.88}
WIDE_BEFORE = 13.61
GOALS = {"engine": 2.0, "re-rank": 3.0}
WIDE_GOAL = 2.0
ITEMS, NUMBERS, TREES = 100, 136, 300


def spend(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of CPU that a call takes, and what it gives."""
    start = time.process_time()
    found = work()
    return (time.process_time() - start) * 1e3, found


def ask(engine: Any, reranker: Reranker, text: str) -> dict[str, float]:
    """One search and its re-ranking; what is no stage of its own is the rest."""
    spent: dict[str, float] = {}
    spent["engine"], hits = spend(lambda: engine.search(text, FOCUS, K))
    spent["re-rank"], _ = spend(lambda: reranker.rerank(Request.of_hits(text, hits, focus=FOCUS)))
    return spent


def take_apart(reranker: Reranker, request: Request) -> dict[str, float]:
    """The stages of a re-ranking, by themselves."""
    clicks = reranker.clicks_
    items = [{"past_clicks": float(clicks.get(str(item["item_id"]), 0)), **item} for item in request.items]
    features = reranker.features_
    spent: dict[str, float] = {"guard": 0.0}
    read = lambda: features.transform_rows(features.read_request(request.context, items))  # noqa: E731
    spent["features"], matrix = spend(read)
    spent["model"], scores = spend(lambda: reranker._ask_ranker(matrix))
    guard = reranker.guard_
    if guard is not None:
        spent["guard"], _ = spend(lambda: guard.apply_live(scores, request.context, items))
    return spent


def spell(text: str, turn: int) -> str:
    """The text in other capitals each time: another text of the same words."""
    return "".join(
        letter.upper() if turn >> place & 1 else letter for place, letter in enumerate(text.lower())
    )


def measure_round(engine: Any, reranker: Reranker, turn: int) -> dict[str, float]:
    """Means over the ten texts. Stages are asked under yet another spelling, so that they are as new."""
    whole = [ask(engine, reranker, spell(text, 2 * turn)) for text in TEXTS]
    parts = []
    for text in TEXTS:
        hits = engine.search(text, FOCUS, K)
        parts.append(take_apart(reranker, Request.of_hits(spell(text, 2 * turn + 1), hits, focus=FOCUS)))
    means = {name: statistics.fmean(each[name] for each in whole) for name in whole[0]}
    means |= {name: statistics.fmean(each[name] for each in parts) for name in parts[0]}
    means["rest"] = max(0.0, means["re-rank"] - means["features"] - means["model"] - means["guard"])
    return means


def measure_demo(demo: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds by state and stage."""
    engine = pg.open_engine(f"sqlite:{demo / 'places.db'}")
    reranker = pg.load(demo / "reranker")
    found = {"first": measure_round(engine, reranker, 0)}
    new = [
        measure_round(engine, reranker, turn) for turn in (1, 2, 3)
    ]  # as a word of three letters has spellings
    known = [measure_round(engine, reranker, 0) for _ in range(rounds)]
    for name, several in (("new", new), ("known", known)):
        found[name] = {stage: statistics.median(each[stage] for each in several) for stage in STAGES}
    return found


def make_wide_reranker() -> tuple[Reranker, Request]:
    """Trees over many numbers, and a list to be ordered."""
    source = np.random.default_rng(0)
    rows = source.normal(size=(20_000, NUMBERS))
    labels = (rows[:, :5].sum(axis=1) + source.normal(size=len(rows)) > 2.0).astype(float)
    names = [f"f{place}" for place in range(NUMBERS)]
    table = {name: rows[:, place] for place, name in enumerate(names)}
    table |= {"search_id": np.arange(len(rows)) // ITEMS, "label": labels}
    features = FeatureSet([Number(name) for name in names]).fit(table)
    ranker = make_ranker("lightgbm", rounds=TREES, random_state=0).fit(features.to_ranking(table))
    items = [
        {"item_id": str(row), **dict(zip(names, rows[row].tolist(), strict=True))} for row in range(ITEMS)
    ]
    return Reranker(features, ranker, None), Request({"query": "a"}, items)


def measure_wide(rounds: int) -> dict[str, float]:
    """Milliseconds for the list of numbers: once its scorer is made, and then."""
    reranker, request = make_wide_reranker()
    reranker._find_scorer()  # as loading it would
    first, _ = spend(lambda: reranker.rerank(request))
    spent = [spend(lambda: reranker.rerank(request))[0] for _ in range(3 * rounds)]
    return {"first": first, "known": statistics.median(spent)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path, default=Path("out/demo"), help="the folder that make demo wrote")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of ten texts")
    parser.add_argument("--json", action="store_true", help="numbers only")
    chosen = parser.parse_args()
    demo = None
    if (chosen.demo / "places.db").is_file() and (chosen.demo / "reranker").is_dir():
        demo = measure_demo(chosen.demo, chosen.rounds)
    wide = measure_wide(chosen.rounds)
    if chosen.json:
        print(json.dumps({"demo": demo, "before": BEFORE, "wide": wide, "wide_before": WIDE_BEFORE}))
        return
    print(f"{'':14}{'before':>9}{'first':>9}{'new':>9}{'known':>9}{'goal':>10}   ms of CPU")
    if demo is None:
        print(f"skipped: {chosen.demo} holds no places.db and reranker. Run make demo.")
    for stage in STAGES if demo is not None else ():
        numbers = [BEFORE[stage], *(demo[state][stage] for state in ("first", "new", "known"))]
        goal = f"{GOALS[stage]:>10g}" if stage in GOALS else ""
        print(f"{stage:14}{''.join(f'{number:9.2f}' for number in numbers)}{goal}")
    title = f"{ITEMS} × {NUMBERS}"
    print(f"{title:14}{WIDE_BEFORE:9.2f}{wide['first']:9.2f}{'–':>9}{wide['known']:9.2f}{WIDE_GOAL:>10g}")


if __name__ == "__main__":
    main()
