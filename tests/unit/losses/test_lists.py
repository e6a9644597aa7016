"""What all losses share: shapes, weights, gains."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from placings.core.errors import BadInput
from placings.losses import softmax_loss
from placings.losses.lists import as_lists, count_ranks, normalize_gains
from placings.metrics import dcg

SCORES, LABELS = torch.zeros(2, 3), torch.zeros(2, 3)
MASK = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SCORES, LABELS[:, :2], MASK), r"both be \[query, item\].* Got \[2, 3\] and \[2, 2\]"),
        ((SCORES[0], LABELS[0], None), r"both be \[query, item\].* Got \[3\] and \[3\]"),
        ((SCORES, LABELS, MASK.float()), "mask must be bool.* Got torch.float32"),
        ((SCORES, LABELS, MASK[:1]), r"mask must be bool and \[query, item\]"),
        ((SCORES.long(), LABELS, MASK), "scores must be floating point. Got torch.int64"),
        ((SCORES.numpy(), LABELS, MASK), "scores must be a torch tensor. Got ndarray"),
        ((SCORES, [[1, 0, 0]], MASK), "labels must be a torch tensor. Got list"),
    ],
)
def test_shapes_and_types_are_checked(arguments, message):
    with pytest.raises(BadInput, match=message):
        softmax_loss(*arguments)


@pytest.mark.parametrize("weights", [torch.ones(3), torch.ones(2, 2), torch.ones(2, 1), [1.0, 1.0]])
def test_weights_are_of_queries_or_of_items(weights):
    with pytest.raises(
        BadInput, match=r"weights must be a tensor, \[query\] or \[query, item\]: \[2, 3\]. Got"
    ):
        softmax_loss(SCORES, LABELS, MASK, weights=weights)


@pytest.mark.parametrize("gain", ["exp2", "linear"])
@pytest.mark.parametrize("k", [None, 2])
def test_gains_are_those_of_the_metric_over_its_ideal(gain, k):
    labels = np.array([2.0, 0.0, 4.0, 1.0])
    gains = (2**labels - 1) if gain == "exp2" else labels
    ideal = dcg(labels, labels, k=k, gain=gain)
    lists = as_lists(torch.zeros(1, 4, dtype=torch.float64), torch.from_numpy(labels[None]), None, None)
    np.testing.assert_allclose(normalize_gains(lists, k, gain)[0].numpy(), gains / ideal, rtol=1e-12)


def test_no_label_is_too_large_for_a_gain():
    lists = as_lists(torch.zeros(1, 3), torch.tensor([[1e30, 0.0, 3.0]]), None, None)
    assert normalize_gains(lists, None, "exp2").tolist() == [[1.0, 0.0, 0.0]]


def test_ranks_break_ties_by_item_order_and_put_padding_last():
    scores = torch.tensor([[1.0, 9.0, 1.0, 2.0]])
    lists = as_lists(scores, torch.zeros(1, 4), torch.tensor([[True, False, True, True]]), None)
    assert count_ranks(lists).tolist() == [[2.0, 4.0, 3.0, 1.0]]


def test_inputs_are_never_changed():
    scores, labels = torch.tensor([[1.0, torch.nan]]), torch.tensor([[1.0, -1.0]])
    softmax_loss(scores, labels, torch.tensor([[True, False]]))
    assert scores[0, 1].isnan()
    assert labels[0, 1] == -1.0
