"""The loop: it learns, keeps the best, stops, and says when it fails."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.metrics import metric
from placings.training.loop import Diverged, Plan, make_optimizer, score_rows, train


def make_plan(**changes: object) -> Plan:
    plan = {
        "steps": 60, "lists": 8, "longest": None, "optimizer": "sgd", "lr": 0.1, "mixture_lr": None,
        "weight_decay": 0.0, "check_every": 10, "patience": 2, "seed": 0,
    }  # fmt: skip
    return Plan(**{**plan, **changes})  # type: ignore[arg-type]


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(2))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.slope


@pytest.fixture
def data() -> RankingData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    return RankingData.from_arrays(X, (X[:, 0] > 0.5).astype(float), np.repeat(np.arange(20), 10))


def test_a_linear_model_finds_the_feature_that_matters(data: RankingData) -> None:
    model = Line()
    history = train(model, find_loss("softmax"), data, make_plan())
    slope = model.slope.detach().numpy()
    assert slope[0] > 1.0
    assert slope[0] > 5 * abs(slope[1])
    assert history.loss[-1] < history.loss[0]
    assert len(history.gradient) == 60


def test_one_step_is_the_gradient_of_the_mean_loss_over_lists(data: RankingData) -> None:
    model, reference = Line(), Line()
    train(model, find_loss("softmax"), data, make_plan(steps=1, lists=20))
    X = torch.tensor(np.asarray(data.X)).view(20, 10, 2)
    labels = torch.tensor(data.y, dtype=torch.float32).view(20, 10)
    scores = reference(X.reshape(200, 2)).view(20, 10)
    find_loss("softmax")(scores, labels, torch.ones(20, 10, dtype=torch.bool)).mean().backward()
    assert reference.slope.grad is not None
    torch.testing.assert_close(model.slope.detach(), -0.1 * reference.slope.grad)


def test_the_best_check_is_kept_and_patience_ends_the_training(data: RankingData) -> None:
    class Worsening(Line):
        """Good at once, and worse with every step that is taken."""

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows @ (torch.tensor([1.0, 0.0]) + 0.0 * self.slope) - 0.0 * self.slope.sum()

    history = train(
        Worsening(), find_loss("softmax"), data, make_plan(steps=500), valid=data, metric=metric("ndcg@5")
    )
    assert history.best_step == 10
    assert len(history.loss) == 30  # two checks without a better one
    assert [step for step, _ in history.checks] == [10, 20, 30]


def test_training_leaves_the_callers_random_numbers_alone(data: RankingData) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(Line(), find_loss("softmax", draws=2), data, make_plan(steps=3))
    torch.testing.assert_close(torch.rand(3), expected)


def test_a_loss_that_is_no_number_stops_with_the_step(data: RankingData) -> None:
    class Broken(Line):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return super().forward(rows) * torch.nan

    with pytest.raises(Diverged, match="the loss is nan at step 1, in a batch of 8 queries that begins with"):
        train(Broken(), find_loss("softmax"), data, make_plan())


def test_scoring_in_pieces_is_scoring_at_once(data: RankingData, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Line()
    with torch.no_grad():
        model.slope.copy_(torch.tensor([1.0, 2.0]))
    whole = score_rows(model, data.X)
    monkeypatch.setattr("placings.training.loop.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(score_rows(model, data.X), whole, rtol=1e-6)


def test_an_unknown_optimizer_is_named() -> None:
    with pytest.raises(ValueError, match="no optimizer 'adagard'; did you mean 'adagrad'"):
        make_optimizer(Line(), make_plan(optimizer="adagard"))
