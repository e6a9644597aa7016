"""Pointwise losses, with their arithmetic."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from placings.losses import mean_squared_error_loss, sigmoid_loss

SCORES = torch.tensor([[0.5, 2.0, -1.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True, False]])


def test_squared_error_is_the_mean_over_real_items():
    value = mean_squared_error_loss(SCORES, torch.tensor([[1.0, 0.0, 9.0]]), MASK)
    assert value.tolist() == [(0.5**2 + 2.0**2) / 2]


def test_sigmoid_is_the_cross_entropy():
    value = sigmoid_loss(SCORES, torch.tensor([[1, 0, 1]]), MASK)
    assert value.item() == pytest.approx((log(1 + exp(-0.5)) + log(1 + exp(2.0))) / 2)


def test_sigmoid_takes_grades_above_one_as_one():
    graded = sigmoid_loss(SCORES, torch.tensor([[4, 0, 2]]))
    assert graded.tolist() == sigmoid_loss(SCORES, torch.tensor([[1, 0, 1]])).tolist()


def test_item_weights_multiply_items():
    value = mean_squared_error_loss(SCORES, torch.zeros(1, 3), MASK, weights=torch.tensor([[2.0, 3.0, 9.0]]))
    assert value.tolist() == [(2 * 0.25 + 3 * 4.0) / 2]


def test_a_query_with_nothing_relevant_still_has_targets():
    labels = torch.zeros(1, 3)
    assert mean_squared_error_loss(SCORES, labels).item() > 0
    assert sigmoid_loss(SCORES, labels).item() > 0
