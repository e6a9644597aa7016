"""The loop: it learns, keeps the best, stops, goes on after a stop, and says when it fails."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import assert_same_state, copy_state, make_data, make_network, make_plan
from torch import Tensor, nn

from placings.core.errors import PlacingsWarning
from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.metrics import metric
from placings.training.loop import Watch, score_rows, train
from placings.training.packing import Packed
from placings.training.plans import Diverged, History
from placings.transforms import Mixture


class Line(nn.Module):
    """The smallest network there is: what `train` and `score_rows` ask for."""

    needs_lists = False

    def __init__(self, features: int = 4) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(features))

    def prepare(self, rows: Tensor, offsets: Tensor | None = None) -> Tensor:
        return rows

    def forward(self, prepared: Tensor, packed: Packed | None = None) -> Tensor:
        return prepared @ self.slope


@pytest.fixture(scope="module")
def data() -> RankingData:
    return make_data()


@pytest.fixture(scope="module")
def plain() -> RankingData:
    """Features of one scale, for networks that transform nothing; only the first matters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    return RankingData.from_arrays(X, (X[:, 0] > 0.5).astype(float), np.repeat(np.arange(20), 10))


def test_a_linear_model_finds_the_feature_that_matters(plain: RankingData) -> None:
    model = Line()
    history = train(model, find_loss("softmax"), plain, make_plan(steps=60, optimizer="sgd"))
    slope = model.slope.detach().numpy()
    assert slope[0] > 1.0
    assert slope[0] > 5 * np.abs(slope[1:]).max()
    assert history.loss[-1] < history.loss[0]
    assert len(history.loss) == len(history.gradient) == len(history.lr) == 60
    assert history.best_step == 60
    assert not model.training


def test_the_best_check_is_kept_and_patience_ends_the_training(plain: RankingData) -> None:
    class Worsening(Line):
        """Right at once; from the eleventh step on its order is turned round."""

        def forward(self, prepared: Tensor, packed: Packed | None = None) -> Tensor:
            sign = 1.0 if self.slope.detach()[0] < 10.5 else -1.0
            return sign * prepared[:, 0] + 0.0 * self.slope.sum()

    class Counting(Worsening):
        def train(self, mode: bool = True) -> Counting:
            return self

    model = Counting()
    train_on = {"valid": plain, "metric": metric("ndcg@5")}

    def count(step: int) -> None:
        with torch.no_grad():
            model.slope.fill_(float(step))

    plan = make_plan(steps=500, check_every=5, patience=3, optimizer="sgd", lr=1e-30)
    history = train(model, find_loss("softmax"), plain, plan, on_step=count, **train_on)  # type: ignore[arg-type]
    assert history.best_step == 5  # a tie at 10 is no better
    assert [step for step, _ in history.checks] == [5, 10, 15, 20]
    assert history.checks[0][1] == history.checks[1][1] > history.checks[2][1]
    assert len(history.loss) == 20  # three checks without a better one
    assert model.slope.tolist() == [5.0] * 4  # the weights of that step
    assert history.metric == "ndcg@5"


def test_a_metric_of_which_less_is_better_is_turned_round(plain: RankingData) -> None:
    model = Line()
    with torch.no_grad():
        model.slope.copy_(torch.tensor([1.0, 0, 0, 0]))
    good = Watch(model, plain, metric("arp")).check()
    with torch.no_grad():
        model.slope.neg_()
    assert Watch(model, plain, metric("arp")).check() < good < 0.0


def test_training_leaves_the_callers_random_numbers_alone(data: RankingData) -> None:
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected, other = torch.rand(3), np.random.random(3)  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    model = make_network(data, Mixture(dropout=0.5, random_state=0), dropout=0.5)
    train(model, find_loss("softmax", draws=2), data, make_plan(steps=3))
    torch.testing.assert_close(torch.rand(3), expected)
    np.testing.assert_array_equal(np.random.random(3), other)  # noqa: NPY002


def test_lists_of_one_row_teach_nothing_and_that_is_told() -> None:
    alone = RankingData.from_arrays(np.eye(3), np.arange(3.0), np.arange(3))
    with pytest.warns(PlacingsWarning, match="no query has two rows"):
        history = train(Line(3), find_loss("softmax"), alone, make_plan())
    assert history == History()


def test_every_step_is_told_once(data: RankingData) -> None:
    seen: list[int] = []
    train(Line(), find_loss("softmax"), data, make_plan(steps=11, lr=1e-9), on_step=seen.append)
    assert seen == list(range(1, 12))


def test_scoring_in_pieces_is_scoring_at_once(data: RankingData, monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in ({}, {"network": "attention", "width": 4, "heads": 1}, {"members": 3}):
        model = make_network(data, "mixture", **settings)  # type: ignore[arg-type]
        whole = score_rows(model, data.X, data.offsets)
        monkeypatch.setattr("placings.training.loop.ROWS_AT_ONCE", 7)
        np.testing.assert_allclose(score_rows(model, data.X, data.offsets), whole, rtol=1e-5, atol=1e-6)
        if not model.needs_lists:
            np.testing.assert_allclose(score_rows(model, data.X), whole, rtol=1e-5, atol=1e-6)
        monkeypatch.undo()


# -- when it fails -----------------------------------------------------------------------------------


class Failing(Line):
    """No number for the rows whose first feature is 7, or with a gradient that is none."""

    how = "loss"

    def forward(self, prepared: Tensor, packed: Packed | None = None) -> Tensor:
        scores = super().forward(prepared, packed)
        if self.how == "gradient":
            return scores + (self.slope * 0.0).abs().sqrt().sum()  # 0, with the slope 0 · ∞
        return torch.where(prepared[:, 0] == 7.0, torch.nan, scores)


def put_seven(data: RankingData, query: int) -> RankingData:
    X = np.array(data.X)
    X[data.offsets[query] + 1] = [7.0, 3.0, -8e9, 2.0]
    return data.replace(X=X, qids=np.array([f"query {q}" for q in data.qids]))


def test_a_loss_that_is_no_number_stops_with_step_query_and_feature(plain: RankingData) -> None:
    plan = make_plan(batch=4, optimizer="sgd", lr=1e-12)
    broken = put_seven(plain, 11)
    from placings.training.batches import BatchSampler

    deck = BatchSampler(broken.offsets, 4, None, plan.seed)
    step = next(step for step in range(99) if 11 in deck.find_queries(step))
    said = (
        rf"the loss is nan at step {step + 1}, in query 'query 11'; the largest value there is 8e\+09, of "
        r"feature 'f3' in query 'query 11'. Lower lr, clip gradients"
    )
    with pytest.raises(Diverged, match=said):
        train(Failing(), find_loss("softmax"), broken, plan)


def test_a_gradient_that_is_no_number_names_its_weight(plain: RankingData) -> None:
    model = Failing()
    model.how = "gradient"
    with pytest.raises(Diverged, match="the gradient is nan at step 1, first in that of slope; the largest"):
        train(model, find_loss("softmax"), plain, make_plan(optimizer="sgd"))


def test_what_a_row_spreads_over_lists_is_traced_to_it(plain: RankingData) -> None:
    class Spreading(Failing):
        """As batch norm does it: one row is in the statistics of all."""

        def forward(self, prepared: Tensor, packed: Packed | None = None) -> Tensor:
            return prepared @ self.slope + torch.where((prepared[:, 0] == 7.0).any(), torch.nan, 0.0)

    said = r"in several lists; the largest value there is 8e\+09, of feature 'f3' in query 'query 11'"
    with pytest.raises(Diverged, match=said):
        train(Spreading(), find_loss("softmax"), put_seven(plain, 11), make_plan(batch=100, lr=1e-12))


def test_weights_that_ran_away_are_named(plain: RankingData) -> None:
    with pytest.raises(Diverged, match=r"at step [2-9].*slope is not finite any more"):
        train(Line(), find_loss("softmax"), plain, make_plan(optimizer="sgd", lr=3e38))


# -- when it is stopped ------------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "adagrad": {},
    "adamw": {"plan": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1, "clip": 0.5}},
    "momentum": {"plan": {"optimizer": "sgd", "optimizer_momentum": 0.9, "lr": 0.05}},
    "sgd": {"plan": {"optimizer": "sgd", "lr": 0.05}},
    "mean": {"plan": {"average": 0.95, "schedule": "cosine", "warmup": 3}},
    "members": {"network": {"members": 4, "dropout": 0.5, "hidden": (8, 4)}, "draws": 2},
    "mixture": {"transform": Mixture(start="random", random_state=0, dropout=0.3, entropy=0.01), "draws": 3},
    "attention": {"network": {"network": "attention", "width": 8, "dropout": 0.3}},
    "groups": {"network": {"group_size": 3, "dropout": 0.3}},
    "without checks": {"valid": False, "plan": {"average": 0.9}},
    "patience": {"plan": {"patience": 2, "check_every": 2, "steps": 400, "lr": 1e-6}},
}


class Stop(Exception):
    pass


def run(
    case: dict[str, Any],
    data: RankingData,
    checkpoint: Path | None,
    *,
    stop: int | None = None,
    every: int = 5,
    on_step: Callable[[int], object] = lambda step: None,
) -> tuple[History, dict[str, np.ndarray]]:
    """A run, stopped after so many steps if asked."""

    def watch(step: int) -> None:
        on_step(step)
        if step == stop:
            raise Stop

    model = make_network(data, case.get("transform", "gauss"), **case.get("network", {}))
    valid = make_data(12, seed=1) if case.get("valid", True) else None
    loss = find_loss("softmax", draws=case.get("draws", 0))
    plan = make_plan(**{"steps": 17, **case.get("plan", {})})
    history = train(
        model, loss, data, plan, valid=valid, metric=metric("ndcg@5"), checkpoint=checkpoint,
        checkpoint_every=every, on_step=watch,
    )  # fmt: skip
    return history, copy_state(model)


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(
    name: str, data: RankingData, tmp_path: Path
) -> None:
    case, path = CASES[name], tmp_path / "run.safetensors"
    expected, weights = run(case, data, None)
    total = len(expected.loss)
    for stop in sorted(
        {2, 7, min(13, total), total}
    ):  # again and again the same run, each time a bit further
        with pytest.raises(Stop):
            run(case, data, path, stop=stop)
    history, found = run(case, data, path)
    assert history == expected
    assert_same_state(weights, found)
    if case.get("valid", True):
        assert 0 < history.best_step <= total
    if name == "patience":
        assert total < 400


def test_a_run_that_is_over_is_only_read(data: RankingData, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    expected, weights = run(CASES["mean"], data, path)
    changed = path.stat().st_mtime_ns
    history, found = run(CASES["mean"], data, path, stop=1)  # no step is taken, so nothing stops it
    assert history == expected
    assert_same_state(weights, found)
    assert path.stat().st_mtime_ns == changed


def test_how_often_checkpoints_are_written_changes_no_bit(data: RankingData, tmp_path: Path) -> None:
    expected, weights = run(CASES["mixture"], data, None)
    for every in (1, 3, 100):
        history, found = run(CASES["mixture"], data, tmp_path / f"{every}.safetensors", every=every)
        assert history == expected
        assert_same_state(weights, found)


def stop_at(place: int, number: int = signal.SIGINT) -> Callable[[int], None]:
    def interrupt(step: int) -> None:
        if step == place:
            signal.raise_signal(number)

    return interrupt


@pytest.fixture(autouse=True)
def _usual_signals() -> Iterator[None]:
    """Signals as a new process has them: PySpark, started by another test, leaves a handler of its own."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("place", [1, 8, 10, 17])  # the first, between checkpoints, at a check, the last
def test_an_interrupt_keeps_the_step_where_it_stands_and_says_how_to_go_on(
    data: RankingData, tmp_path: Path, place: int
) -> None:
    path = tmp_path / "run.safetensors"
    expected, weights = run({}, data, None)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=rf"after step {place} is in {path}\. Fit again"):
        run({}, data, path, on_step=stop_at(place))
    assert signal.getsignal(signal.SIGINT) == before
    seen: list[int] = []
    history, found = run({}, data, path, on_step=seen.append)
    assert seen == list(range(place + 1, 18))
    assert history == expected
    assert_same_state(weights, found)
    assert [file.name for file in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_second_interrupt_ends_at_once_and_names_what_was_written_before(
    data: RankingData, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"

    def insist(step: int) -> None:
        if step == 8:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="after step 5 is in"):
        run({}, data, path, on_step=insist)
    (tmp_path / "run.safetensors").unlink()
    with pytest.raises(KeyboardInterrupt, match="^$"):  # nothing was kept, so nothing is claimed
        run({}, data, path, every=100, on_step=insist)


def test_a_termination_is_kept_too_where_it_is_an_interrupt(data: RankingData, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as at the terminal
    try:
        with pytest.raises(KeyboardInterrupt, match="after step 8 is in"):
            run({}, data, tmp_path / "run.safetensors", on_step=stop_at(8, signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_a_checkpoint_an_interrupt_is_left_alone(data: RankingData) -> None:
    seen: list[int] = []

    def interrupt(step: int) -> None:
        seen.append(step)
        if step == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="^$"):
        run({}, data, None, on_step=interrupt)
    assert seen == [1, 2, 3]


def test_an_own_handler_of_a_signal_stays(data: RankingData, tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        history, _ = run({}, data, tmp_path / "run.safetensors", on_step=stop_at(8))
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    assert len(history.loss) == 17
