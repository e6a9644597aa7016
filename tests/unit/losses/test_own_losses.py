"""Losses of the user's own: tried before training, one value a query, by function or by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from placings.core.errors import BadInput, UnknownName
from placings.losses import HELD_LOSSES, find_loss, register_loss, softmax_loss
from placings.losses.own import OWN_LOSSES


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    # also before: examples of the docs that ran in this process may have registered some
    OWN_LOSSES.clear()
    HELD_LOSSES.clear()
    yield
    OWN_LOSSES.clear()
    HELD_LOSSES.clear()


def squares(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    return ((scores - labels) ** 2 * mask).sum(-1)


def weighed(scores: Tensor, labels: Tensor, mask: Tensor, *, weights: Tensor | None = None) -> Tensor:
    rows = torch.ones_like(scores) if weights is None else weights
    return ((scores - labels) ** 2 * rows * mask).sum(-1)


SCORES = torch.tensor([[1.0, 2.0, 9.0], [0.5, 0.0, 1.0]])
LABELS = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 1.0]])
MASK = torch.tensor([[True, True, False], [True, True, True]])


def test_a_function_is_a_loss_under_its_own_name() -> None:
    loss = find_loss(squares)
    assert (str(loss), loss.own) == ("squares", True)
    assert loss(SCORES, LABELS, MASK).tolist() == [1.0, 0.25]  # (1−0)² + 0; 0.5² + 0 + 0


def test_a_registered_name_finds_the_function_and_so_does_the_function_the_name() -> None:
    register_loss("my_squares", squares)
    assert find_loss("my_squares")(SCORES, LABELS, MASK).tolist() == [1.0, 0.25]
    assert str(find_loss(squares)) == "my_squares"


def test_our_own_function_is_known_by_its_name() -> None:
    assert find_loss(softmax_loss) == find_loss("softmax")


def test_members_and_draws_in_front_of_the_lists_are_more_lists() -> None:
    three = torch.stack([SCORES, SCORES + 1.0, SCORES])
    found = find_loss(squares)(three, LABELS, MASK)
    assert found.shape == (3, 2)
    torch.testing.assert_close(found[1], squares(SCORES + 1.0, LABELS, MASK))
    noisy = find_loss(squares, draws=4)(SCORES, LABELS, MASK, generator=torch.Generator().manual_seed(0))
    assert noisy.shape == (2,)


def test_a_query_weighs_the_mean_of_its_rows_unless_the_function_weighs_rows_itself() -> None:
    by_row = torch.tensor([[1.0, 3.0, 50.0], [0.0, 0.0, 3.0]])
    plain = find_loss(squares)
    assert plain(SCORES, LABELS, MASK, weights=torch.tensor([2.0, 4.0])).tolist() == [2.0, 1.0]
    assert plain(SCORES, LABELS, MASK, weights=by_row).tolist() == [2.0, 0.25]  # means 2 and 1
    assert find_loss(weighed)(SCORES, LABELS, MASK, weights=by_row).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda s, y, mask: ((s - y) ** 2 * mask).sum(), "must give one value for each query.*Got shape"),
        (lambda s, y, mask: ((s - y) ** 2).sum(-1), "changes with what stands in padding"),
        (
            lambda s, y, mask: (s.detach() * mask).sum(-1),
            "must have a finite gradient in the scores. Got none",
        ),
        (lambda s, y, mask: (s * mask).sum(-1) / 0.0, "must be finite"),
        (lambda s, y, mask: ((s - s).abs().sqrt() * mask).sum(-1), "finite gradient"),
        (lambda s, y: s.sum(-1), r"failed on two small lists \(TypeError"),
        (lambda s, y, mask: 3.0, "Got float"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_before_it_is_used(function: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        find_loss(function)
    with pytest.raises(BadInput, match=said):
        register_loss("wrong", function)
    assert not OWN_LOSSES
    assert not HELD_LOSSES


@pytest.mark.parametrize("name", ["softmax", "ranknet", "Mine", "a b", "", "x@5", 7])
def test_a_name_that_is_taken_or_could_not_be_typed_is_refused(name: Any) -> None:
    with pytest.raises(BadInput, match="Give yours another name|must be small letters"):
        register_loss(name, squares)


def test_an_unknown_name_is_answered_with_how_to_register_it_unless_it_is_a_slip() -> None:
    with pytest.raises(UnknownName, match=r"call pg.register_loss\('revenue', …\) first"):
        find_loss("revenue")
    with pytest.raises(UnknownName, match="did you mean 'softmax'"):
        find_loss("sofmax")
    register_loss("mine", squares)
    with pytest.raises(BadInput, match="takes no cutoff"):
        find_loss("mine@5")
