"""How long the default network takes on many long lists, and what its budget of 15 minutes costs.

    python benchmarks/neural_budget.py [--queries 6000] [--rows 120] [--features 136] [--budgets 15m,none]
    python benchmarks/neural_budget.py --auto 10m --budgets 15m

Made data: so many training queries, a sixth more to stop on and a sixth more to judge on, one truth. For
each budget `NeuralRanker()` is fitted as it is, and NDCG@5 and @10 on the last part are printed with
intervals, the steps, what ended the training (patience, steps or budget) and the time it took. Where the
first budget did not end the training, a longer one would do the same, and is left out. A line over
`quantile_normal` stands beside them; with `--auto` so does `AutoRanker` with that budget, which learns from
the queries to stop on too. The memory is the most that the process had so far.

15 minutes and 3 GB of memory at the most for the first budget; without one it may be 40 minutes, and auto
takes 6 GB.
Needs placings[neural], and for --auto placings[trees].
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait do not spin; as the terminal has it

import placings as pg
from placings.core import parse_duration


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--budgets", default="15m,none")
    parser.add_argument("--auto", metavar="BUDGET", help="AutoRanker with this budget too")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for budget in [*asked.budgets.split(","), *([asked.auto] if asked.auto else [])]:
        if budget != "none":
            parse_duration(budget)  # now, not behind the first fit
    held = max(1, asked.queries // 6)
    made = pg.make_ranking(
        asked.queries + 2 * held, n_features=asked.features, mean_size=asked.rows, random_state=asked.seed
    ).data
    train, valid = made[: asked.queries], made[asked.queries : asked.queries + held]
    test = made[asked.queries + held :]
    print(f"{train.n_queries:,} queries, {train.n_rows:,} rows, {train.n_features} features", flush=True)
    metrics = ["ndcg@5", "ndcg@10"]

    def tell(name: str, ranker: pg.Ranker, seconds: float, more: str = "") -> None:
        result = pg.evaluate(ranker, test, metrics)
        shown = ", ".join(
            f"{metric} {result[metric]:.4f} [{low:.4f}, {high:.4f}]"
            for metric in metrics
            for low, high in [result.interval(metric)]
        )
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes, on Linux
        print(f"{name}: {shown}; {seconds:.0f} s, {memory:.1f} GB{more}", flush=True)

    began = time.perf_counter()
    line = pg.LinearRanker("ridge", transform="quantile_normal", C=1.0).fit(train)
    tell("ridge over quantile_normal", line, time.perf_counter() - began)
    for budget in asked.budgets.split(","):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ranker = pg.NeuralRanker(budget=budget, random_state=asked.seed).fit(train, valid=valid)
        took = time.perf_counter() - began
        steps, ended = len(ranker.history_.loss), ranker.history_.ended
        tell(f"NeuralRanker(budget={budget!r})", ranker, took, f", {steps:,} steps, ended by {ended}")
        if ended != "budget":
            break
    if asked.auto:
        began = time.perf_counter()
        auto = pg.AutoRanker(budget=asked.auto, random_state=asked.seed).fit(train, valid=valid)
        shares = ", ".join(f"{name} {share:.2f}" for name, share in auto.shares_.items())
        tell(f"AutoRanker(budget={asked.auto!r})", auto, time.perf_counter() - began, f", blend of {shares}")


if __name__ == "__main__":
    main()
