"""Equal to TF-Ranking and Rax, to 1e-5, wherever they do not slip; where they do, to what they meant.

The frozen numbers are sums over a query's items or pairs, so a loss of ours that is a mean is multiplied
by how many it is a mean of, or asked for its sum.
"""

from __future__ import annotations

import math

import pytest
import torch
from freeze_losses import CASES, ITEM_WEIGHTS, PAD, make_noise
from frozen_losses import FROZEN

from placings.losses import find_loss

WIDTH = 6.0  # the padded length of the graded case
BOTH = ("TF-Ranking", "Rax")


def lay_out(case):
    scores = torch.tensor([[0.0 if each is PAD else each for each in row] for row, _ in CASES[case]])
    labels = torch.tensor([[0.0 if each is PAD else each for each in row] for _, row in CASES[case]])
    return scores, labels, torch.tensor([[each is not PAD for each in row] for _, row in CASES[case]])


def ask_ours(name, case, *, times="one", weights=None, **options):
    scores, labels, mask = lay_out(case)
    noise = torch.tensor(make_noise(*scores.shape)) if options.get("draws") else None
    weights = None if weights is None else torch.tensor(weights)
    values = find_loss(name, **options)(scores, labels, mask, weights=weights, noise=noise)
    return values * mask.sum(-1) if times == "items" else values


ITEMS, SUM = {"times": "items"}, {"reduce": "sum"}
WEIGHTS = {"weights": ITEM_WEIGHTS}
RAX_NOISE = {"draws": 3, "noise_style": "rax"}

# (peers, their line, our name, case, our keywords)
EQUAL = [
    (BOTH, "mean_squared_error", "mean_squared_error", "graded", ITEMS),
    (BOTH, "mean_squared_error weighted", "mean_squared_error", "graded", ITEMS | WEIGHTS),
    (BOTH, "sigmoid", "sigmoid", "shares", ITEMS),
    (("Rax",), "sigmoid graded", "sigmoid", "graded", ITEMS),
    (BOTH, "logistic", "logistic", "graded", SUM),
    (BOTH, "logistic weighted", "logistic", "graded", SUM | WEIGHTS),
    (BOTH, "hinge", "hinge", "graded", SUM),
    (BOTH, "soft_zero_one", "soft_zero_one", "graded", SUM),
    (BOTH, "softmax", "softmax", "graded", {}),
    (BOTH, "softmax weighted", "softmax", "graded", WEIGHTS),
    (("Rax",), "listmle untied", "listmle", "untied", {}),
    (BOTH, "approx_ndcg", "approx_ndcg", "graded", {}),
    (BOTH, "approx_ndcg, temperature 1", "approx_ndcg", "graded", {"temperature": 1.0}),
    (("TF-Ranking",), "approx_ndcg weighted", "approx_ndcg", "graded", WEIGHTS | {"weigh": "list"}),
    (("Rax",), "approx_ndcg@3, apart", "approx_ndcg@3", "apart", {"cutoff_temperature": 0.1}),
    (("TF-Ranking",), "approx_mrr", "approx_mrr", "graded", {}),
    (("TF-Ranking",), "approx_mrr weighted", "approx_mrr", "graded", WEIGHTS | {"weigh": "list"}),
    (("Rax",), "approx_mrr first", "approx_mrr", "graded", {"reciprocal": "first"}),
    (("TF-Ranking",), "neural_ndcg", "neural_ndcg", "graded", {}),
    (BOTH, "stochastic approx_ndcg", "approx_ndcg", "graded", {"draws": 3}),
    (("Rax",), "stochastic approx_ndcg", "approx_ndcg", "graded", RAX_NOISE),
    (
        ("TF-Ranking",),
        "stochastic approx_ndcg, temperature 0.5",
        "approx_ndcg",
        "graded",
        {"draws": 3, "noise_temperature": 0.5},
    ),
    (
        ("Rax",),
        "stochastic approx_ndcg, beta 0.5",
        "approx_ndcg",
        "graded",
        RAX_NOISE | {"noise_temperature": 0.5},
    ),
    (
        ("Rax",),
        "stochastic softmax, beta 0.5",
        "softmax",
        "graded",
        RAX_NOISE | {"noise_temperature": 0.5},
    ),
]


@pytest.mark.parametrize(
    ("peer", "line", "name", "case", "keywords"),
    [(peer, *rest) for peers, *rest in EQUAL for peer in peers],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_loss_equals_its_peer(peer, line, name, case, keywords):
    assert ask_ours(name, case, **keywords).tolist() == pytest.approx(FROZEN[peer][line], rel=1e-5, abs=1e-5)


def test_every_frozen_number_is_compared():
    equal = {(peer, line) for peers, line, *_ in EQUAL for peer in peers}
    slips = {(peer, line) for peer, lines in SLIPS.items() for line in lines}
    assert equal | slips == {(peer, line) for peer in FROZEN for line in FROZEN[peer]}
    assert not equal & slips


SLIPS = {
    "TF-Ranking": {
        *(
            "lambdarank",
            "lambdarank, 10 places",
            "lambdarank@3",
            "ndcg_loss2",
            "ndcg_loss2@3",
            "ndcg_loss2pp",
        ),
        *("listmle untied", "listmle tied, lowest", "listmle tied, highest"),
        *("stochastic approx_ndcg, extreme", "stochastic approx_ndcg, extreme, no floor"),
    },
    "Rax": {
        *("lambdarank", "lambdarank, 10 places", "lambdarank@3", "ndcg_loss2", "ndcg_loss2@3"),
        *("listnet", "listmle tied", "approx_ndcg@3, apart, 10 places"),
        *("stochastic approx_ndcg, extreme", "stochastic approx_ndcg, extreme, no floor"),
    },
}


# -- the first slip: lambda losses multiplied by the padded length ---------------------------------------


@pytest.mark.parametrize("peer", BOTH)
@pytest.mark.parametrize("name", ["lambdarank", "lambdarank@3", "ndcg_loss2", "ndcg_loss2@3"])
def test_a_lambda_loss_equals_its_peer_divided_by_the_padded_length(peer, name):
    meant = [value / WIDTH for value in FROZEN[peer][name]]
    assert ask_ours(name, "graded").tolist() == pytest.approx(meant, rel=1e-5, abs=1e-6)


def test_ndcg_loss2pp_equals_its_peer_divided_by_the_padded_length():
    """TF-Ranking has (1 − f) · Loss2 + f · LambdaRank, which at f = 1/11 is an 11th of ours at mu = 10."""
    meant = [value * 11.0 / WIDTH for value in FROZEN["TF-Ranking"]["ndcg_loss2pp"]]
    assert ask_ours("ndcg_loss2pp", "graded").tolist() == pytest.approx(meant, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("peer", BOTH)
def test_padding_scales_the_lambda_losses_of_the_peers(peer):
    wider = [value * 10.0 / WIDTH for value in FROZEN[peer]["lambdarank"]]
    assert FROZEN[peer]["lambdarank, 10 places"] == pytest.approx(wider, rel=1e-5)


# -- the second slip: ListMLE's random ties (and its padding, and its lists with nothing relevant) ---------


def test_listmle_equals_tf_ranking_less_the_likelihood_of_its_padding():
    """m padded places of one tiny score add log m! to a list of TF-Ranking's."""
    padded = [0, 1, 2]
    theirs = FROZEN["TF-Ranking"]["listmle untied"]
    meant = [value - math.lgamma(m + 1) for value, m in zip(theirs, padded, strict=True)]
    assert ask_ours("listmle", "untied").tolist() == pytest.approx(meant, rel=1e-5)


def test_listmle_is_one_of_the_orders_that_tf_ranking_draws_from():
    """Ours is deterministic; theirs is between two values, which differ wherever labels are tied."""
    lowest, highest = (FROZEN["TF-Ranking"][f"listmle tied, {end}"] for end in ("lowest", "highest"))
    ours = ask_ours("listmle", "graded").tolist()
    for query, padded in {0: 0, 1: 2, 3: 1}.items():
        assert highest[query] - lowest[query] > 0.1
        assert lowest[query] - 1e-4 <= ours[query] + math.lgamma(padded + 1) <= highest[query] + 1e-4


@pytest.mark.parametrize("name", ["listmle", "listnet"])
def test_listmle_and_listnet_equal_rax_where_something_is_relevant(name):
    theirs = FROZEN["Rax"]["listmle tied" if name == "listmle" else "listnet"]
    ours = ask_ours(name, "graded").tolist()
    assert ours[:2] + ours[3:] == pytest.approx(theirs[:2] + theirs[3:], rel=1e-5, abs=1e-5)
    assert theirs[2] > 1.0
    assert ours[2] == 0.0


# -- the third slip: log(softmax + 1e-20) under the noise -------------------------------------------------


@pytest.mark.parametrize("peer", BOTH)
def test_the_noisy_loss_equals_its_peer_without_the_floor(peer):
    floored = FROZEN[peer]["stochastic approx_ndcg, extreme"]
    meant = FROZEN[peer]["stochastic approx_ndcg, extreme, no floor"]
    assert ask_ours("approx_ndcg", "extreme", draws=3).tolist() == pytest.approx(meant, rel=1e-5)
    assert abs(floored[0] - meant[0]) > 0.05


# -- one more, of Rax alone: padding stands within a smooth cutoff ----------------------------------------


def test_padding_moves_the_smooth_cutoff_of_rax():
    """Every padded place has rank 1 there, so with four of them nothing else is in the top three."""
    assert FROZEN["Rax"]["approx_ndcg@3, apart"] == pytest.approx([-0.19679])
    assert FROZEN["Rax"]["approx_ndcg@3, apart, 10 places"] == pytest.approx([0.0], abs=1e-5)
