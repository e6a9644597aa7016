"""Every loss of the registry meets the same demands."""

from __future__ import annotations

import pytest
import torch

from placings.losses import LOSSES, find_loss
from placings.losses.names import list_keywords

SPECS = [*LOSSES, *(f"{name}@3" for name in LOSSES if "k" in list_keywords(name))]
POINTWISE = {"mean_squared_error", "sigmoid"}
SIZES = torch.tensor([7, 4, 1, 6, 2, 0])
MASK = torch.arange(7) < SIZES[:, None]
WILD = (torch.nan, torch.inf, -torch.inf)

pytestmark = pytest.mark.parametrize("spec", SPECS)


def make_lists(*, dtype=torch.float64, seed=0):
    """Distinct scores and labels 0 to 6 within a query, something relevant in each that has two items."""
    rng = torch.Generator().manual_seed(seed)
    scores = torch.stack([torch.randperm(7, generator=rng) for _ in SIZES]).to(dtype) / 3.0 - 1.0
    labels = torch.stack(
        [torch.cat([torch.randperm(int(n), generator=rng), torch.zeros(7 - int(n))]) for n in SIZES]
    )
    return scores, labels.to(dtype), MASK


def make_graded(**options):
    """The same with the grades 0 to 2, so labels are tied."""
    scores, labels, mask = make_lists(**options)
    return scores, (labels / 2).floor().clamp(max=2), mask


def ask(spec, scores, labels, mask, **options):
    """Values and gradient."""
    given = scores.clone().requires_grad_()
    values = find_loss(spec)(given, labels, mask, **options)
    values.sum().backward()
    return values.detach(), given.grad


def test_one_value_for_each_query_in_the_type_of_the_scores(spec):
    for dtype, expected in {
        torch.float32: torch.float32,
        torch.float64: torch.float64,
        torch.bfloat16: torch.float32,
        torch.float16: torch.float32,
    }.items():
        scores, labels, mask = make_graded(dtype=dtype)
        values = find_loss(spec)(scores, labels.long(), mask)
        assert values.shape == SIZES.shape
        assert values.dtype == expected
        assert values.isfinite().all()


def test_no_queries_and_no_items_are_fine(spec):
    none = find_loss(spec)(torch.zeros(0, 5), torch.zeros(0, 5), torch.zeros(0, 5, dtype=torch.bool))
    assert none.shape == (0,)
    empty, gradient = ask(spec, torch.zeros(3, 0), torch.zeros(3, 0), torch.zeros(3, 0, dtype=torch.bool))
    assert empty.tolist() == [0.0, 0.0, 0.0]
    assert gradient.shape == (3, 0)


def test_an_all_masked_list_is_zero_with_a_gradient_of_zero(spec):
    values, gradient = ask(spec, *make_graded())
    assert values[-1] == 0.0
    assert (gradient[-1] == 0.0).all()
    values, gradient = ask(
        spec, torch.full((2, 3), torch.nan), torch.full((2, 3), -1.0), torch.zeros(2, 3).bool()
    )
    assert (values == 0.0).all()
    assert (gradient == 0.0).all()


def test_a_query_with_nothing_relevant_weighs_nothing(spec):
    scores, labels, mask = make_graded()
    labels[0] = 0.0
    values, gradient = ask(spec, scores, labels, mask)
    if spec in POINTWISE:
        assert values[0] > 0.0
    else:
        assert values[0] == 0.0
        assert (gradient[0] == 0.0).all()


def test_one_item_has_nothing_to_learn_from_but_its_label(spec):
    for label in (0.0, 3.0):
        one = torch.full((1, 1), label)
        value, gradient = ask(spec, torch.tensor([[0.7]]), one, torch.ones(1, 1, dtype=torch.bool))
        assert value.isfinite().all()
        assert spec in POINTWISE or gradient.item() == 0.0


@pytest.mark.parametrize("label", [0.0, 1.0, 4.0])
def test_equal_labels_and_equal_scores_are_fine(spec, label):
    scores, _, mask = make_graded()
    for given in (scores, torch.zeros_like(scores)):
        values, gradient = ask(spec, given, torch.full_like(scores, label), mask)
        assert values.isfinite().all()
        assert gradient.isfinite().all()
    scores, labels, mask = make_graded()
    values, gradient = ask(spec, torch.zeros_like(scores), labels, mask)
    assert values.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_scores_stay_finite(spec, dtype):
    scores, labels, mask = make_graded(dtype=dtype)
    for far in (scores.sign() * 1e4, scores * 1e4, torch.full_like(scores, 1e4), -1e4 + scores):
        values, gradient = ask(spec, far, labels, mask)
        assert values.isfinite().all()
        assert gradient.isfinite().all()


def test_padding_never_changes_a_loss_or_its_gradient(spec):
    scores, labels, mask = make_graded()
    values, gradient = ask(spec, scores, labels, mask)
    for score, label in ((0.0, 0.0), (1e4, 4.0), (torch.nan, -1.0), (-torch.inf, torch.nan)):
        wild = scores.masked_fill(~mask, score), labels.masked_fill(~mask, label), mask
        wider = [torch.cat([each, each[-1:].expand(6, 7)], 1) for each in wild]
        for lists in (wild, wider):
            padded, slopes = ask(spec, *lists)
            torch.testing.assert_close(padded, values, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(slopes[:, :7], gradient, rtol=1e-12, atol=1e-14)
            assert (slopes[~lists[2]] == 0.0).all()


def test_padding_may_stand_anywhere(spec):
    scores, labels, mask = make_graded()
    places = torch.tensor([1, 3, 4, 5, 7, 8, 9])
    wide = [torch.zeros(6, 11, dtype=each.dtype) for each in (scores, labels, mask)]
    for spread, each in zip(wide, (scores, labels, mask), strict=True):
        spread[:, places] = each
    values, gradient = ask(spec, scores, labels, mask)
    moved, slopes = ask(spec, *wide)
    torch.testing.assert_close(moved, values, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(slopes[:, places], gradient, rtol=1e-12, atol=1e-14)


def test_the_order_of_items_changes_nothing(spec):
    """Scores are distinct here, and for ListMLE labels too: it ranks tied ones by item order."""
    scores, labels, mask = make_lists() if spec == "listmle" else make_graded()
    values, gradient = ask(spec, scores, labels, mask)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    moved, slopes = ask(spec, scores[:, order], labels[:, order], mask[:, order])
    torch.testing.assert_close(moved, values, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(slopes, gradient[:, order], rtol=1e-12, atol=1e-14)


def test_a_batch_is_its_queries_one_by_one(spec):
    scores, labels, mask = make_graded()
    values, gradient = ask(spec, scores, labels, mask)
    for query in range(len(SIZES)):
        one = slice(query, query + 1)
        alone, slopes = ask(spec, scores[one], labels[one], mask[one])
        torch.testing.assert_close(alone, values[one], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(slopes, gradient[one], rtol=1e-12, atol=1e-14)


def test_draws_are_lists_of_their_own(spec):
    scores, labels, mask = make_graded()
    other, _, _ = make_graded(seed=1)
    values, gradient = ask(spec, torch.stack([scores, other]), labels, mask)
    for draw, given in enumerate((scores, other)):
        alone, slopes = ask(spec, given, labels, mask)
        torch.testing.assert_close(values[draw], alone, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(gradient[draw], slopes, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("wild", WILD)
def test_a_score_that_is_not_finite_makes_its_query_nan_and_no_other(spec, wild):
    scores, labels, mask = make_graded()
    values, gradient = ask(spec, scores, labels, mask)
    for nothing_relevant in (False, True):
        broken, graded = scores.clone(), labels.clone()
        broken[1, 2] = wild
        graded[1] *= not nothing_relevant
        got, slopes = ask(spec, broken, graded, mask)
        assert got.isnan().tolist() == [False, True, False, False, False, False]
        others = torch.arange(6) != 1
        torch.testing.assert_close(got[others], values[others], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(slopes[others], gradient[others], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("wild", [-1.0, *WILD])
def test_a_label_that_is_no_grade_makes_its_query_nan_and_no_other(spec, wild):
    scores, labels, mask = make_graded()
    labels[1, 2] = wild
    assert ask(spec, scores, labels, mask)[0].isnan().tolist() == [False, True, False, False, False, False]


def test_a_label_of_1e30_is_no_nan_and_not_ignored(spec):
    scores, labels, mask = make_graded(dtype=torch.float32)
    labels[0, 3] = 1e30
    values, gradient = ask(spec, scores, labels, mask)
    assert not values.isnan().any()
    assert values[0] != 0.0
    assert not gradient.isnan().any()


def test_weights_multiply_queries(spec):
    scores, labels, mask = make_graded()
    weights = torch.tensor([2.0, 0.0, 1.0, 0.5, 3.0, 7.0])
    values, gradient = ask(spec, scores, labels, mask)
    weighed, slopes = ask(spec, scores, labels, mask, weights=weights)
    torch.testing.assert_close(weighed, values * weights)
    torch.testing.assert_close(slopes, gradient * weights[:, None])
    items = weights[:, None].expand(6, 7).masked_fill(~mask, torch.nan)
    constant, slopes = ask(spec, scores, labels, mask, weights=items)
    torch.testing.assert_close(constant, weighed, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(slopes, gradient * weights[:, None])


def test_gradients_are_right(spec):
    scores, labels, mask = make_graded()
    scores = (scores * 0.83 + 0.011 * torch.arange(7)).requires_grad_()  # no hinge is at its kink
    loss = find_loss(spec)
    assert torch.autograd.gradcheck(lambda given: loss(given, labels, mask), scores, eps=1e-6, atol=1e-6)


def test_a_better_order_is_a_lower_loss(spec):
    scores = torch.tensor([[0.9, 0.1, -0.3, 0.5]], dtype=torch.float64)
    labels, mask = torch.tensor([[0, 2, 0, 1]]), torch.ones(1, 4, dtype=torch.bool)
    better, best = scores[:, [1, 0, 2, 3]], scores[:, [2, 0, 1, 3]]
    values = [ask(spec, each, labels, mask)[0].item() for each in (scores, better, best)]
    assert values[0] > values[1]
    assert values[0] > values[2]


def test_a_step_down_the_gradient_lowers_it(spec):
    scores, labels, mask = make_graded()
    values, gradient = ask(spec, scores, labels, mask)
    after, _ = ask(spec, scores - 1e-4 * gradient, labels, mask)
    moved = gradient.abs().sum(-1) > 1e-9
    assert (after[moved] < values[moved]).all()


def test_no_mask_means_no_padding(spec):
    scores, labels, _ = make_graded()
    whole = torch.ones(6, 7, dtype=torch.bool)
    torch.testing.assert_close(find_loss(spec)(scores, labels), find_loss(spec)(scores, labels, whole))
