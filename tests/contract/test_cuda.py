"""Losses, transforms and training on a GPU: the same values as on the CPU. Skipped where there is none.

On a machine without pytest: `PYTHONPATH=src python tests/contract/test_cuda.py`, which also prints times.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import placings as pg
from placings.data.ranking import RankingData
from placings.losses import LOSSES, find_loss
from placings.metrics import metric
from placings.training.loop import train
from placings.training.plans import Diverged, History, TrainingPlan
from placings.transforms import TRANSFORMS, Mixture, Piecewise, make_transform

try:
    import pytest

    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    each_loss: Any = pytest.mark.parametrize("name", LOSSES)
    each_transform: Any = pytest.mark.parametrize("name", [n for n in TRANSFORMS if n != "query_minmax"])

    def each_run(test: Any) -> Any:
        return pytest.mark.parametrize("name", RUNS)(test)
except ImportError:  # the GPU machine has no pytest

    def each_loss(test: Any) -> Any:
        return test

    each_transform = each_run = each_loss

RUNS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "zhuang2020", "hidden": (32, 16), "lr": 0.1},
    "members": {"members": 4, "dropout": 0.5, "optimizer": "adagrad", "lr": 0.1},
    "bases": {
        "members": 1, "optimizer": "adagrad", "lr": 0.1, "clip": 0.5, "schedule": "cosine", "average": 0.9,
        "transform": Mixture(start="random", dropout=0.4, entropy=0.05, normalise=True, random_state=0),
    },
    "adamw": {"members": 2, "loss": "mse", "lr": 0.01, "warmup": 3},
    "momentum": {"members": 1, "optimizer": "sgd", "optimizer_momentum": 0.9, "lr": 0.05, "list_size": 9},
    "line": {"members": 3, "skip": True, "skip_decay": 0.0, "pieces": 4, "ensemble": "shared", "lr": 0.01},
    "attention": {"network": "attention", "width": 8, "optimizer": "adagrad", "lr": 0.05},
    "groups": {"group_size": 3, "optimizer": "adagrad", "lr": 0.1},
}  # fmt: skip


def draw_lists(queries: int = 16, items: int = 60) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, labels 0 to 4 and a mask of lists of different lengths, one of them without a relevant item."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, items + 1, queries)
    mask = np.arange(items) < lengths[:, None]
    labels = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=(queries, items)) * mask
    labels[0] = 0
    scores = rng.normal(size=(queries, items))
    return tuple(map(torch.from_numpy, (scores.astype(np.float32), labels.astype(np.float32), mask)))  # type: ignore[return-value]


def run_loss(name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    scores, labels, mask = (tensor.to(device) for tensor in draw_lists())
    scores.requires_grad_()
    values = find_loss(name)(scores, labels, mask)
    values.sum().backward()
    assert scores.grad is not None
    return values.detach().cpu(), scores.grad.cpu()


@each_loss
def test_a_loss_and_its_gradient_are_the_same_on_the_gpu(name: str) -> None:
    for here, there in zip(run_loss(name, "cpu"), run_loss(name, "cuda"), strict=True):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


@each_transform
def test_a_transform_is_the_same_on_the_gpu(name: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=500), np.exp(rng.normal(0, 6, 500)), rng.integers(0, 4, 500)])
    X = X.astype(np.float32)
    X[::9, 0] = np.nan
    transform = make_transform(name).fit(X)
    module = transform.module()
    with torch.no_grad():
        here = module(torch.from_numpy(X))
        there = module.to("cuda")(torch.from_numpy(X).to("cuda")).cpu()
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(there.numpy(), transform.transform(X), rtol=1e-5, atol=1e-5)


def make_data() -> RankingData:
    return pg.make_ranking(60, n_features=10, mean_size=20, max_size=60, random_state=0).data


def fit(name: str, device: str, *, steps: int = 20, **more: Any) -> tuple[History, dict[str, Any]]:
    """A run in float32 unless told otherwise, and what it came to."""
    ranker = pg.NeuralRanker(**{"hidden": (16,), "random_state": 0, "device": device, **RUNS[name]})
    data, settings = make_data(), ranker._settle()
    ranker.bag_ = False
    ranker.transform_ = ranker._make_transform(0).fit(data)
    ranker.pieces_ = Piecewise(settings.pieces).fit(data) if settings.pieces else None
    torch.manual_seed(0)
    network = ranker._build(settings)
    plan = TrainingPlan(
        steps=steps, batch=16, list_size=settings.list_size, optimizer=settings.optimizer, lr=settings.lr,
        mixture_lr=settings.mixture_lr, weight_decay=settings.weight_decay, check_every=10, patience=1000,
        seed=0, optimizer_momentum=settings.optimizer_momentum, schedule=settings.schedule,
        warmup=settings.warmup, average=settings.average, clip=settings.clip,
        precision=more.pop("precision", "float32"), skip_decay=settings.skip_decay,
    )  # fmt: skip
    loss = find_loss(settings.loss, draws=settings.draws)
    history = train(network, loss, data, plan, valid=data, metric=metric("ndcg@5"), **more)
    return history, {name: tensor.cpu().numpy() for name, tensor in network.state_dict().items()}


def assert_same_run(
    one: tuple[History, dict[str, Any]], other: tuple[History, dict[str, Any]], atol: float
) -> None:
    for name in ("loss", "gradient", "lr", "checks"):
        given, expected = (np.array(getattr(history, name)) for history in (one[0], other[0]))
        np.testing.assert_allclose(given, expected, rtol=10 * atol, atol=10 * atol, err_msg=name)
    for name, values in other[1].items():
        np.testing.assert_allclose(one[1][name], values, rtol=atol, atol=atol, err_msg=name)


@each_run
def test_a_captured_run_is_the_plain_run(name: str) -> None:
    assert_same_run(fit(name, "cuda", graph=True), fit(name, "cuda", graph=False), 1e-4)


@each_run
def test_a_run_on_the_gpu_is_the_run_on_the_cpu(name: str) -> None:
    assert_same_run(fit(name, "cuda", steps=10), fit(name, "cpu", steps=10), 5e-4)


def test_streamed_rows_train_to_what_resident_ones_do() -> None:
    assert_same_run(fit("members", "cuda", resident=False), fit("members", "cuda", resident=True), 1e-4)


def test_a_stopped_run_goes_on_captured_or_not() -> None:
    class Stop(Exception):
        pass

    def stop(step: int) -> None:
        if step == 13:
            raise Stop

    for name in ("bases", "adamw", "momentum"):
        for graph in (True, False):
            expected = fit(name, "cuda", graph=graph)
            with tempfile.TemporaryDirectory() as folder:
                given = {"checkpoint": Path(folder) / "run", "checkpoint_every": 4, "graph": graph}
                try:
                    fit(name, "cuda", on_step=stop, **given)
                except Stop:
                    assert_same_run(fit(name, "cuda", **given), expected, 1e-4)
                else:
                    raise AssertionError("it was not stopped")


def test_bfloat16_learns_what_float32_learns() -> None:
    for name in ("paper", "members"):
        found = [fit(name, "cuda", steps=200, precision=p)[0].checks for p in ("float32", "bfloat16")]
        best = [max(value for _, value in checks) for checks in found]
        assert abs(best[0] - best[1]) < 0.03, (name, best)


def test_a_captured_run_that_is_no_number_stops_and_names_what_it_can() -> None:
    data = make_data()
    X = np.array(data.X)
    row = int(data.offsets[7]) + 1
    X[row, 3] = 3e38
    ranker = pg.NeuralRanker(
        transform="raw", members=1, hidden=(8,), batch_norm=False, batch=60, loss="mse", steps=20,
        holdout=0.0, random_state=0,
    )  # fmt: skip
    said = ""
    try:
        ranker.fit(data.replace(X=X))
    except Diverged as error:
        said = str(error)
    feature, query = data.feature_names[3], data.qids.tolist()[7]
    assert f"the largest value there is 3e+38, of feature {feature!r} in query {query!r}" in said


def test_a_ranker_trained_on_the_gpu_scores_the_same_on_a_cpu() -> None:
    data = make_data()
    with tempfile.TemporaryDirectory() as folder:
        ranker = pg.NeuralRanker(steps=50, random_state=0, device="cuda").fit(data)
        ranker.save(Path(folder) / "model")
        back = pg.load(Path(folder) / "model")
        here = back.predict(data)
        back.network_.to("cpu")
        np.testing.assert_allclose(here, ranker.predict(data), atol=1e-6)
        np.testing.assert_allclose(back.predict(data), here, rtol=1e-4, atol=1e-4)


def clock(job: Any, repeat: int = 50) -> float:
    """Milliseconds of a job on the GPU, after a warm-up."""
    for _ in range(5):
        job()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        job()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start) / repeat


def main() -> None:
    for name in LOSSES:
        test_a_loss_and_its_gradient_are_the_same_on_the_gpu(name)
        print("loss equal on the GPU:", name)
    for name in TRANSFORMS:
        if name != "query_minmax":
            test_a_transform_is_the_same_on_the_gpu(name)
            print("transform equal on the GPU:", name)
    for name in RUNS:
        test_a_captured_run_is_the_plain_run(name)
        test_a_run_on_the_gpu_is_the_run_on_the_cpu(name)
        print("run equal, captured and on the GPU:", name)
    for test in (
        test_streamed_rows_train_to_what_resident_ones_do,
        test_a_stopped_run_goes_on_captured_or_not,
        test_bfloat16_learns_what_float32_learns,
        test_a_captured_run_that_is_no_number_stops_and_names_what_it_can,
        test_a_ranker_trained_on_the_gpu_scores_the_same_on_a_cpu,
    ):
        test()
        print("passed:", test.__name__)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    rng = np.random.default_rng(0)
    labels = rng.choice(5, p=[0.52, 0.32, 0.13, 0.02, 0.01], size=(128, 200)).astype(np.float32)
    scores = torch.randn(128, 200, device="cuda", requires_grad=True)
    given = torch.from_numpy(labels).cuda(), torch.ones(128, 200, dtype=torch.bool, device="cuda")
    for name, draws in (("softmax", 0), ("approx_ndcg@5", 0), ("approx_ndcg@5", 8), ("lambdarank", 0)):
        loss = find_loss(name, draws=draws)

        def step(loss: Any = loss) -> None:
            scores.grad = None
            loss(scores, *given).sum().backward()

        print(f"{name}, {draws} draws, 128 lists of 200, forward and backward: {clock(step):.3f} ms")
    X = np.exp(rng.normal(0, 4, size=(25_600, 136))).astype(np.float32)
    rows = torch.from_numpy(X).cuda()
    for name in ("gauss", "log1p", "cdf", "mixture"):
        module = make_transform(name).fit(X).module().to("cuda")
        with torch.no_grad():
            print(f"{name}, 25,600 rows x 136: {clock(lambda module=module: module(rows)):.3f} ms")


if __name__ == "__main__":
    main()
