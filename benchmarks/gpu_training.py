"""The paper's recipe on one GPU: time of a step, of 100,000 steps, and NDCG in bfloat16 against float32.

    python benchmarks/gpu_training.py --what step            # a few thousand steps of each kind
    python benchmarks/gpu_training.py --what full            # 100,000 steps, bfloat16
    python benchmarks/gpu_training.py --what precision       # 3 seeds × 20,000 steps, bfloat16 and float32

Data are generated in WEB30K's size (18,919 training queries, 136 features). Preset zhuang2020 with the paper's
mixture, 8 Gumbel draws, lists of at most 200. Needs a CUDA device.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

import placings as pg
from placings.losses import find_loss
from placings.metrics import metric
from placings.training import graphs
from placings.training.loop import _set_up, score_rows
from placings.training.plans import Plan


def make_plan(steps: int, seed: int, precision: str, lr: float) -> Plan:
    return Plan(
        steps=steps, lists=128, longest=200, optimizer="adagrad", lr=lr, mixture_lr=None, weight_decay=0.0,
        check_every=steps, patience=steps, seed=seed, precision=precision,
    )  # fmt: skip


def build(data: pg.RankingData, seed: int, device: str, transform: str = "mixture") -> pg.NeuralRanker:
    ranker = pg.NeuralRanker(preset="zhuang2020", transform=transform, random_state=seed, device=device)
    ranker.transform_ = ranker._make_transform(seed).fit(data.X)
    torch.manual_seed(seed)
    ranker.network_ = ranker._build(ranker._settle())
    return ranker


def run(
    data: pg.RankingData, test: pg.RankingData, *, steps: int, seed: int, precision: str, compiled: bool, lr: float
) -> dict[str, float]:
    device = torch.device("cuda")
    began = time.perf_counter()
    network = build(data, seed, "cuda").network_
    loss = find_loss("approx_ndcg@5", draws=8)
    job = _set_up(network, loss, data, make_plan(steps, seed, precision, lr), device, None)
    prepared = time.perf_counter() - began
    began = time.perf_counter()
    runner = graphs.GraphRunner(job, compiled=compiled)
    network.train()
    runner._capture(0)
    torch.cuda.synchronize()
    captured = time.perf_counter() - began
    began = time.perf_counter()
    trace = runner.take_steps(0, steps, lambda step: None)
    torch.cuda.synchronize()
    took = time.perf_counter() - began
    if trace.find_trouble() is not None:
        raise SystemExit(f"no number at step {trace.find_trouble()}: {trace.loss[-3:]}")
    values = metric("ndcg@5")(score_rows(network, test.X, test.offsets), test.y, test.offsets)
    return {
        "steps": steps, "seed": seed, "precision": precision, "compiled": compiled, "prepare_s": prepared,
        "capture_s": captured, "train_s": took, "ms_a_step": 1e3 * took / steps,
        "first_loss": float(np.mean(trace.loss[:100])), "last_loss": float(np.mean(trace.loss[-100:])),
        "ndcg@5": float(np.nanmean(values)), "rows": runner.rows, "groups": [g.width for g in runner.groups],
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--what", choices=("step", "full", "precision"), default="step")
    options.add_argument("--queries", type=int, default=18_919)
    options.add_argument("--steps", type=int)
    options.add_argument("--lr", type=float, default=0.5)
    chosen = options.parse_args()
    began = time.perf_counter()
    made = pg.make_ranking(chosen.queries + 3000, random_state=0).data  # one truth for both
    data, test = made[: chosen.queries], made[chosen.queries :]
    print(f"{data.n_rows:,} rows made in {time.perf_counter() - began:.1f} s on {torch.cuda.get_device_name()}")
    if chosen.what == "step":
        cells = [(0, "bfloat16", True), (0, "bfloat16", False), (0, "float32", True)]
        steps = chosen.steps or 2000
    elif chosen.what == "full":
        cells, steps = [(0, "bfloat16", True)], chosen.steps or 100_000
    else:
        cells = [(seed, kind, True) for seed in range(3) for kind in ("bfloat16", "float32")]
        steps = chosen.steps or 20_000
    for seed, precision, compiled in cells:
        found = run(
            data, test, steps=steps, seed=seed, precision=precision, compiled=compiled, lr=chosen.lr
        )
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
