"""CPU time of a live request, stage by stage: the embedded engine, features, model, guard, and all between.

    python benchmarks/hot_path.py [--demo out/demo] [--rounds 9] [--json]

Ten short beginnings on the demo's index of GeoNames, 40 hits each, with a focus; then a list of 100 items
with 136 numbers each, ordered by 300 trees. Milliseconds of CPU on one core, the mean of the texts in the
best round: other work on the machine empties caches, and so only ever adds. Three states of the process:

first   the first time that anything is asked
new     the text was never asked, its items were
known   everything was asked before

Measured on the 2 shared cores of the development machine, with seven other jobs on them:

                    before    first      new    known      goal
    engine            4.05     3.85     1.10     1.14         2
    features          2.46     2.67     1.18     1.18
    model             2.33     0.82     0.68     0.69
    guard             0.38     0.16     0.08     0.08
    rest              0.31     0.17     0.12     0.13
    re-rank           5.48     3.83     2.07     2.08         3
    100 × 136         4.46     1.64        –     1.07         2

"before" is the commit before this way was made, measured alike minutes later, known texts. With the
libraries' own number of threads, which spin while they wait, its re-ranking took 64 ms.

Needs what `make demo` leaves, or the folder that --demo names; the list of numbers needs nothing.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PLACINGS_THREADS"):
    os.environ[_name] = "1"  # before a library starts threads, as a worker of `placings serve` does

import argparse  # noqa: E402
import json  # noqa: E402
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
BEFORE = {"engine": 4.05, "features": 2.46, "model": 2.33, "guard": 0.38, "rest": 0.31, "re-rank": 5.48}
WIDE_BEFORE = 4.46
GOALS = {"engine": 2.0, "re-rank": 3.0}
WIDE_GOAL = 2.0
ITEMS, NUMBERS, TREES = 100, 136, 300


def spend(work: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of CPU that a call takes, and what it gives."""
    start = time.process_time()
    found = work()
    return (time.process_time() - start) * 1e3, found


class Stages:
    """Watches the stages of a re-ranker from inside: what each spends while it is asked as always."""

    def __init__(self, reranker: Reranker) -> None:
        self.spent = dict.fromkeys(("features", "model", "guard"), 0.0)
        self._watch(reranker.features_, "read_request", "features")
        self._watch(reranker.features_, "transform_rows", "features")
        self._watch(reranker, "_ask_ranker", "model")
        if reranker.guard_ is not None:
            self._watch(reranker.guard_, "apply_live", "guard")

    def _watch(self, owner: Any, name: str, stage: str) -> None:
        work = getattr(owner, name)

        def watched(*given: Any) -> Any:
            spent, found = spend(lambda: work(*given))
            self.spent[stage] += spent
            return found

        object.__setattr__(owner, name, watched)  # a guard is frozen

    def measure(self, engine: Any, reranker: Reranker, blanks: int) -> dict[str, float]:
        """Means over the ten texts; blanks behind them make other texts of the same words."""
        whole = dict.fromkeys(STAGES, 0.0)
        self.spent.update(dict.fromkeys(self.spent, 0.0))
        texts = [text + blanks * " " for text in TEXTS]
        whole["engine"], lists = spend(lambda: [engine.search(text, FOCUS, K) for text in texts])
        asked = [Request.of_hits(text, hits, focus=FOCUS) for text, hits in zip(texts, lists, strict=True)]
        whole["re-rank"], _ = spend(lambda: [reranker.rerank(request) for request in asked])
        whole |= self.spent
        whole["rest"] = whole["re-rank"] - sum(self.spent.values())
        return {stage: whole[stage] / len(TEXTS) for stage in STAGES}


def measure_demo(demo: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds by state and stage."""
    engine = pg.open_engine(f"sqlite:{demo / 'places.db'}")
    reranker = pg.load(demo / "reranker")
    reranker._find_scorer()  # as loading it would, had it a sample request
    stages = Stages(reranker)
    found = {"first": stages.measure(engine, reranker, 0)}
    new = [stages.measure(engine, reranker, turn) for turn in range(1, rounds + 1)]
    known = [stages.measure(engine, reranker, 0) for _ in range(rounds)]
    for name, several in (("new", new), ("known", known)):
        found[name] = min(several, key=lambda each: each["engine"] + each["re-rank"])
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
    return {"first": first, "known": min(spent)}


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
