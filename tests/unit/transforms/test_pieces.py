"""Pieces of a feature's range: edges at quantiles, several columns a feature, a line that bends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import placings as pg
from placings.core.errors import BadInput
from placings.transforms import Mixture, Piecewise, Transform, make_transform

NAN = np.nan


def test_edges_are_quantiles_and_equal_ones_are_one() -> None:
    values = np.array([0.0] * 6 + [1.0, 2.0, 4.0, 8.0])  # of ten; quartiles: 0, 0, 0, 2, 8
    pieces = Piecewise(4).fit(values[:, None])
    assert pieces.low_.tolist() == [0.0, 2.0]
    assert pieces.high_.tolist() == [2.0, 8.0]
    assert pieces.transform([[1.0], [5.0]]).tolist() == [[0.5, 0.0], [1.0, 0.5]]


def test_columns_are_named_after_their_feature_and_missing_values_are_flagged() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, NAN], "same": [3.0] * 4, "b": [0.0, 0.0, 0.0, 5.0]})
    pieces = Piecewise(2, missing="zero", indicator=True).fit(frame)
    assert pieces.get_feature_names_out().tolist() == [
        "a__piece1", "a__piece2", "same__piece1", "b__piece1", "a__missing",
    ]  # fmt: skip
    assert pieces.find_owners().tolist() == [0, 0, 1, 2, 0]
    made = pieces.transform(frame)
    assert made.tolist()[1:] == [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0, 1.0],  # the missing value of a is 0, its smallest
    ]
    x = torch.tensor(frame.to_numpy(), dtype=torch.float32)
    np.testing.assert_array_equal(pieces.module()(x), made)


def test_rows_wait_as_features_and_become_pieces_in_each_step() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    module = Piecewise(8).fit(X).module()
    prepared = module.prepare(torch.tensor(X))
    assert prepared.shape == (50, 3)
    torch.testing.assert_close(module.finish(prepared), module(torch.tensor(X)))
    assert module(torch.tensor(X)).shape == (50, 24)


def test_a_line_over_pieces_bends() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(400, 1)).astype(np.float32)
    data = pg.RankingData.from_arrays(X, 3.0 - np.round(3.0 * np.abs(X[:, 0])), np.arange(400) // 10)
    plain, bent = (
        pg.evaluate(pg.LinearRanker("ridge", transform=transform).fit(data), data, ["ndcg@10"])["ndcg@10"]
        for transform in (None, "piecewise")
    )
    assert bent > 0.97
    assert plain < 0.9


def test_other_transforms_are_not_made_of_pieces() -> None:
    with pytest.raises(BadInput, match="made of single transforms"):
        Mixture(("raw", "piecewise")).fit([[1.0], [2.0]])


@pytest.mark.parametrize(("name", "value"), [("pieces", 0), ("pieces", 2.5), ("max_knots", 1)])
def test_counts_must_be_counts(name: str, value: float) -> None:
    with pytest.raises(BadInput, match=f"{name} must be a whole number"):
        make_transform("piecewise", **{name: value}).fit([[1.0], [2.0]])


@pytest.mark.parametrize(
    "change",
    [
        {"owner": np.array([0, 0, 2])},  # a feature is passed over
        {"owner": np.array([0, 1, 0])},
        {"owner": np.array([1, 1, 1])},
        {"low": np.array([0.0, 9e9, 0.0])},
    ],
)
def test_a_state_whose_pieces_do_not_fit_is_refused(change: dict[str, np.ndarray]) -> None:
    facts, arrays = Piecewise(2).fit([[0.0, 0.0], [1.0, 7.0], [3.0, 7.0]]).state()
    assert arrays["owner"].tolist() == [0, 0, 1]
    Transform.from_state(facts, arrays)
    with pytest.raises(BadInput, match="in a transform's state"):
        Transform.from_state(facts, arrays | change)
