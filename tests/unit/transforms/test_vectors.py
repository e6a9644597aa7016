"""Groups that are vectors: one weight for all columns, and directions that are kept."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ortho_group

from placings.transforms import Mixture, Transform

Array = np.ndarray[Any, Any]
NAMES = ["e0", "e1", "e2", "clicks"]


def fit(X: Array, **settings: Any) -> Mixture:
    from placings.data.ranking import RankingData

    data = RankingData.from_arrays(X, np.zeros(len(X)), np.zeros(len(X)), feature_names=NAMES)
    return Mixture(groups={"title": ["e0", "e1", "e2"]}, random_state=0, **settings).fit(data)


def draw(rows: int = 80, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(size=(rows, 3)) * [1, 2, 3] + 0.5, np.exp(rng.normal(size=rows) * 4)]
    ).astype(np.float32)


def forms(mixture: Mixture, X: Array) -> dict[str, Array]:
    made = [mixture._compute_basis(m, X, np.array([0, len(X)])) for m in range(len(mixture.basis_))]
    return dict(zip(mixture.basis_, (each[:, :3] for each in made), strict=True))


def test_the_forms_by_hand() -> None:
    X = np.array([[3.0, 4.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]], dtype=np.float32)
    made = forms(fit(X), X)
    np.testing.assert_array_equal(made["raw"], X[:, :3])
    np.testing.assert_allclose(made["cdf"], [[0.6, 0.8, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(made["log1p"][0], np.array([0.6, 0.8, 0.0]) * math.log(1 + 5))
    scale = math.sqrt((1.5**2 + 2.0**2 + 0.0) / 3)  # the mean of the columns' variances
    np.testing.assert_allclose(made["gauss"][0], np.array([1.5, 2.0, 0.0]) / scale)


@pytest.mark.parametrize("normalise", [False, True])
def test_turning_the_space_turns_the_result_and_nothing_else(normalise: bool) -> None:
    X = draw()
    turn = ortho_group.rvs(3, random_state=0)
    turned = X.copy()
    turned[:, :3] = X[:, :3] @ turn.T
    one, two = (forms(fit(rows, normalise=normalise), rows) for rows in (X, turned))
    for name in one:
        np.testing.assert_allclose(two[name], one[name] @ turn.T, rtol=1e-4, atol=1e-5)


def test_normalised_forms_have_a_mean_square_of_one_at_the_usual_length() -> None:
    X = draw(rows=500)
    made = forms(fit(X, normalise=True), X)
    for name in ("raw", "gauss", "cdf"):
        assert np.mean(made[name] ** 2) == pytest.approx(1.0, rel=1e-5)
    assert np.mean(made["log1p"] ** 2) == pytest.approx(1.0, rel=0.15)  # its length is bent, so about


def test_the_columns_of_a_group_share_their_weights_and_torch_agrees() -> None:
    X, unseen = draw(), draw(seed=1)
    X[0, 1] = unseen[2, 2] = np.nan
    unseen[3, :3] = 0.0
    for normalise in (False, True):
        mixture = fit(
            X, start="random", normalise=normalise, basis=("raw", "gauss", "cdf", "log1p", "minmax")
        )
        p = mixture.weights()
        assert p.shape == (4, 5)
        np.testing.assert_array_equal(p[0], p[1])
        np.testing.assert_array_equal(p[0], p[2])
        assert (p[:3, 4] == 0).all()  # minmax has no form that keeps directions
        assert p[3, 4] > 0
        assert mixture.fill_[1] == pytest.approx(np.nanmean(X[:, 1], dtype=np.float64), rel=1e-6)
        made = mixture.transform(unseen)
        for export in (False, True):
            ran = mixture.module(export=export)(torch.tensor(unseen)).detach()
            np.testing.assert_allclose(ran, made, rtol=2e-6, atol=2e-6)
        facts, arrays = mixture.state(statistics=True)
        back = Transform.from_state(json.loads(json.dumps(facts)), arrays)
        np.testing.assert_array_equal(back.transform(unseen), made)


def test_long_vectors_do_not_overflow_and_a_group_may_be_all_there_is() -> None:
    X = np.array([[1e30, -1e30], [1e-30, 1e30], [0.0, 0.0]], dtype=np.float32)
    mixture = Mixture(("cdf", "log1p", "gauss"), groups={"v": ["f1", "f2"]}).fit(X)
    made = mixture.transform(X)
    assert np.isfinite(made).all()
    np.testing.assert_allclose(mixture.module()(torch.tensor(X)).detach(), made, rtol=1e-6, atol=1e-6)


def test_chunks_of_vectors_give_what_all_rows_give() -> None:
    X = draw()
    whole, chunked = fit(X[:40]), fit(X[:40])
    chunked = chunked.partial_fit(X[40:])
    whole = fit(X)
    np.testing.assert_allclose(chunked.transform(X), whole.transform(X), rtol=1e-6, atol=1e-6)
