"""Losses by their names."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch

from placings.core.errors import BadInput, UnknownName
from placings.losses import LOSSES, Loss, approx_ndcg_loss, find_loss, listmle_loss, stochastic

PAIR = torch.tensor([[0.2, 0.9, 0.1]]), torch.tensor([[1, 0, 2]]), torch.tensor([[True, True, True]])


def test_a_name_with_a_cutoff_and_draws_is_the_function_with_them():
    noise = torch.randn(8, 1, 3, generator=torch.Generator().manual_seed(0))
    named = find_loss("approx_ndcg@2", draws=8, noise_temperature=0.5, temperature=0.3)
    ours = stochastic(approx_ndcg_loss, 8, 0.5)(*PAIR, noise=noise, k=2, temperature=0.3)
    assert torch.equal(named(*PAIR, noise=noise), ours)
    assert str(named) == "approx_ndcg@2"


def test_names_that_mean_the_same_are_equal():
    assert find_loss("RankNet") == find_loss("logistic_loss") == Loss("logistic")
    assert find_loss("ndcg_loss2++@5") == find_loss("ndcg_loss2pp@5")
    assert find_loss(Loss("softmax")) == Loss("softmax")
    assert len({find_loss("mse"), find_loss("mean_squared_error")}) == 1


def test_a_generator_shuffles_the_ties_of_listmle():
    tied = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[1, 1, 1]])
    named = find_loss("listmle")(*tied, generator=torch.Generator().manual_seed(5))
    assert torch.equal(named, listmle_loss(*tied, generator=torch.Generator().manual_seed(5)))
    assert find_loss("softmax")(*tied, generator=torch.Generator()).shape == (1,)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("aprox_ndcg@5", {}, "no loss 'aprox_ndcg'; did you mean 'approx_ndcg'?"),
        ("softmax@5", {}, "softmax takes no cutoff. Got 'softmax@5'. These do: approx_mrr, approx_ndcg"),
        ("approx_ndcg@0", {}, "cutoff must be a whole number of 1 or more, as in 'approx_ndcg@10'"),
        ("approx_ndcg@", {}, "cutoff must be a whole number of 1 or more"),
        ("approx_ndcg", {"k": 5}, "the cutoff must be part of the name, as in 'approx_ndcg@10'. Got k=5"),
        (
            "approx_ndcg",
            {"temprature": 1},
            "no option of approx_ndcg 'temprature'; did you mean 'temperature'?",
        ),
        ("approx_ndcg", {"draws": -1}, "draws must be a whole number"),
        ("approx_ndcg", {"draws": 2, "noise_style": "x"}, "no style of noise 'x'"),
        ("approx_ndcg", {"temperature": -1}, "temperature must be a finite number above 0. Got -1"),
        (7, {}, "a loss must be a name such as 'approx_ndcg@5', a Loss, or a function of your own. Got 7"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name, options, message):
    with pytest.raises(BadInput, match="(?s)" + message.replace("?", r"\?").replace("(", r"\(")):
        find_loss(name, **options)


def test_an_unknown_loss_is_an_unknown_name():
    with pytest.raises(UnknownName):
        find_loss("nothing_like_it")


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_the_same_order_of_arguments(name):
    names = list(inspect.signature(LOSSES[name]).parameters)
    assert names[:4] == ["scores", "labels", "mask", "weights"]
    assert LOSSES[name].__name__.removesuffix("_loss") == name


def test_without_torch_the_error_names_the_install_command():
    script = "import sys; sys.modules['torch'] = None\nimport placings\nimport placings.losses"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "a loss needs PyTorch. Install it with: pip install 'placings[neural]'" in result.stderr
