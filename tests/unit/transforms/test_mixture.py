"""The learned mixture: equation 4, where it starts, what it learns, and what its loop may set."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from placings.core.errors import BadInput
from placings.transforms import Cdf, Gauss, Log1p, MinMax, Mixture, Transform
from placings.transforms.mixing import MixtureLayer

Array = np.ndarray[Any, Any]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


def draw(rows: int = 50, features: int = 3) -> Array:
    rng = np.random.default_rng(0)
    return np.exp(rng.normal(size=(rows, features)) * [0.3, 2.0, 4.0][:features]).astype(np.float32)


def layer_of(mixture: Mixture, export: bool = False) -> MixtureLayer:
    layer = mixture.module(export=export).function
    assert isinstance(layer, MixtureLayer)
    return layer


def test_a_mixture_is_the_weighted_sum_of_its_bases_and_softmax_weighs_them() -> None:
    X = draw()
    mixture = Mixture(start="random", temperature=0.5, random_state=3).fit(X)
    logits = mixture.embedding_.astype(float) @ mixture.projection_.astype(float).T / 0.5
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.weights(), p, rtol=1e-12)
    parts = [X, Gauss().fit_transform(X), Cdf().fit_transform(X), Log1p().fit_transform(X)]
    expected = sum(p[:, m] * part.astype(float) for m, part in enumerate(parts))
    np.testing.assert_allclose(mixture.transform(X), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mixture.module()(torch.tensor(X)).detach(), expected, rtol=1e-6, atol=1e-6)
    assert mixture.basis_ == ("raw", "gauss", "cdf", "log1p")


def test_each_start_begins_where_it_says() -> None:
    X = draw()
    uniform, paper, random = (Mixture(start=s, random_state=0).fit(X) for s in ("uniform", "paper", "random"))
    np.testing.assert_array_equal(uniform.weights(), np.full((3, 4), 0.25))
    assert not uniform.projection_.any()
    assert uniform.embedding_.any()  # otherwise nothing could be learned: both gradients would be 0
    assert np.abs(paper.embedding_).max() <= 0.05
    assert np.abs(paper.projection_).max() <= np.sqrt(6 / (4 + 8))
    assert np.ptp(paper.weights()) > 0.0
    assert np.ptp(random.weights()) > np.ptp(paper.weights())
    again = Mixture(start="random", random_state=0).fit(X)
    np.testing.assert_array_equal(again.weights(), random.weights())
    free = Mixture(embedding=None).fit(X)
    np.testing.assert_array_equal(free.weights(), np.full((3, 4), 0.25))
    assert [name for name, _ in layer_of(free).named_parameters()] == ["embedding"]


@pytest.mark.parametrize("embedding", [None, 5])
@pytest.mark.parametrize("groups", [None, {"pair": ["f1", "f3"]}])
def test_the_gradient_of_the_weights_is_right_and_statistics_get_none(embedding: Any, groups: Any) -> None:
    X = draw(rows=6)
    layer = layer_of(
        Mixture(embedding=embedding, start="random", groups=groups, random_state=0).fit(X)
    ).double()
    x = torch.tensor(X, dtype=torch.float64)
    parameters = dict(layer.named_parameters())
    assert set(parameters) == {"embedding"} | ({"projection"} if embedding else set())

    def run(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, tuple(parameters.values()))
    assert not any(buffer.requires_grad for buffer in layer.buffers())


def test_a_mixture_learns_the_planted_transform() -> None:
    X = draw(rows=400)
    mixture = Mixture(normalise=True, basis=("gauss", "cdf", "log1p"), random_state=0).fit(X)
    module, x = mixture.module(), torch.tensor(X)
    parts = module.function.expand(module.fill_in(x)).detach()
    planted = torch.stack([parts[:, 1, 0], parts[:, 0, 1], parts[:, 2, 2]], dim=1)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        loss = ((module(x) - planted) ** 2).mean()
        loss.backward()
        optimizer.step()
    mixture.take_weights(module)
    assert mixture.weights().argmax(axis=1).tolist() == [1, 0, 2]
    np.testing.assert_allclose(mixture.weights(), module.function.weights(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mixture.transform(X), module(x).detach(), rtol=1e-5, atol=1e-5)
    facts, arrays = mixture.state()
    back = Transform.from_state(json.loads(json.dumps(facts)), arrays)
    np.testing.assert_array_equal(back.transform(X), mixture.transform(X))
    np.testing.assert_array_equal(back.module()(x).detach(), mixture.module()(x).detach())


def test_normalised_bases_have_mean_zero_and_variance_one_over_training_rows() -> None:
    X = draw(rows=300)
    X[::4, 0] = np.nan
    X = np.column_stack([X, np.full(300, 7.0, dtype=np.float32)])
    basis = ("raw", "gauss", "cdf", "log1p", "quantile_normal", "minmax", MinMax(clip=True))
    mixture = Mixture(basis, normalise=True).fit(X)
    assert mixture.basis_[-1] == "minmax_2"
    curves = np.stack(
        [mixture._compute_basis(m, np.nan_to_num(X, nan=1.0), np.array([0, 300])) for m in range(len(basis))]
    )
    known = ~np.isnan(X[:, 0])
    for feature, rows in ((0, known), (1, slice(None)), (2, slice(None))):
        np.testing.assert_allclose(curves[:, rows, feature].mean(axis=1), 0.0, atol=1e-6)
        np.testing.assert_allclose(curves[:, rows, feature].std(axis=1), 1.0, atol=1e-6)
    assert not curves[:, :, 3].any()
    filled = torch.tensor(np.nan_to_num(X, nan=1.0))
    ran = layer_of(mixture).expand(filled).detach().numpy().swapaxes(0, 1)
    np.testing.assert_allclose(ran, curves, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(
        mixture.module()(torch.tensor(X)).detach(), mixture.transform(X), rtol=2e-6, atol=2e-6
    )


def test_dropout_hides_bases_renormalises_the_rest_and_can_be_replayed() -> None:
    X = torch.tensor(draw())
    mixture = Mixture(start="random", dropout=0.5, random_state=0).fit(X.numpy())
    layer = layer_of(mixture).train()
    layer.generator = torch.Generator().manual_seed(7)
    first = [layer.shares().detach() for _ in range(300)]
    layer.generator.manual_seed(7)
    assert all(torch.equal(layer.shares().detach(), share) for share in first)
    drawn = torch.stack(first)
    torch.testing.assert_close(drawn.sum(dim=-1), torch.ones(300, 3))
    hidden = (drawn == 0).float().mean().item()
    assert 0.42 < hidden < 0.48  # half of four, less the 1 in 16 cases in which all stay
    kept = drawn[:, 0][drawn[:, 0, 0] > 0]
    whole = layer.weights()[0]
    for share in kept:
        there = share > 0
        torch.testing.assert_close(share[there], whole[there] / whole[there].sum())
    torch.testing.assert_close(layer.eval().shares().detach(), layer.weights())


def test_dropout_takes_its_noise_from_the_loop() -> None:
    layer = layer_of(Mixture(dropout=0.3).fit(draw())).train()
    layer.noise = torch.tensor([[0.1, 0.9, 0.9, 0.9], [0.1, 0.1, 0.1, 0.1], [0.9, 0.2, 0.9, 0.2]])
    torch.testing.assert_close(
        layer.shares().detach(), torch.tensor([[0, 1 / 3, 1 / 3, 1 / 3], [0.25] * 4, [0.5, 0, 0.5, 0]])
    )


def test_expanding_once_and_mixing_later_is_the_forward_pass() -> None:
    X = draw()
    X[3, 1] = np.nan
    module = Mixture(start="random", random_state=0).fit(X).module()
    bases = module.function.expand(module.fill_in(torch.tensor(X)))
    assert bases.shape == (50, 4, 3)
    torch.testing.assert_close(module.function.mix(bases), module(torch.tensor(X)), rtol=1e-6, atol=1e-6)


def test_a_lower_temperature_sharpens_and_is_kept_with_the_weights() -> None:
    mixture = Mixture(start="random", random_state=0).fit(draw())
    module = mixture.module()
    layer = module.function
    before = layer.weights().max(dim=1).values
    layer.temperature = 0.1
    assert (layer.weights().max(dim=1).values > before).all()
    assert layer.temperature == pytest.approx(0.1)
    assert set(module.state_dict()) == {"function.embedding", "function.projection", "function.heat"}
    mixture.take_weights(module)
    np.testing.assert_allclose(mixture.weights(), layer.weights(), rtol=1e-5, atol=1e-6)


def test_regularisation_is_the_weighted_mean_entropy() -> None:
    mixture = Mixture(entropy=2.0, groups={"pair": ["f1", "f2"]}, basis=("raw", "cdf", "minmax")).fit(draw())
    layer = layer_of(mixture)
    expected = 2.0 * (np.log(3) + np.log(2)) / 2  # one feature with three bases, one group with two
    assert layer.regularisation().item() == pytest.approx(expected, rel=1e-6)
    layer.regularisation().backward()
    assert layer.projection.grad is not None
    assert layer.projection.grad.isfinite().all()
    layer.entropy = 0.0
    assert layer.regularisation().item() == 0.0


def test_weights_stay_float32_under_autocast() -> None:
    X = torch.tensor(draw())
    module = Mixture(start="random", random_state=0).fit(X.numpy()).module()
    expected = module(X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(module(X), expected)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"basis": ()}, "basis must list"),
        ({"basis": "cdf"}, "basis must list"),
        ({"basis": ("cdf", "mixture")}, "made of single transforms"),
        ({"basis": (Cdf(missing="zero"),)}, "settings of Mixture itself"),
        ({"basis": ("cfd",)}, "did you mean 'cdf'"),
        ({"basis": ("raw", "query_minmax"), "normalise": True}, "single values"),
        ({"start": "zero"}, "uniform, random, paper"),
        ({"embedding": 0}, "whole number of 1 or more"),
        ({"temperature": 0.0}, "above 0"),
        ({"dropout": 1.0}, "below 1"),
        ({"lr": 0.0}, "lr must be"),
        ({"groups": {"g": ["f9"]}}, "no feature 'f9'"),
        ({"groups": {"g": []}}, "must list its columns"),
        ({"groups": {"g": ["f1"], "h": ["f1"]}}, "two groups"),
        ({"groups": {"g": ["f1"]}, "basis": ("minmax",)}, "groups need one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Mixture(**settings).fit(draw())


def test_weights_of_another_module_are_refused() -> None:
    mixture = Mixture().fit(draw())
    with pytest.raises(BadInput, match="module of this mixture"):
        mixture.take_weights(torch.nn.Linear(2, 2))
    with pytest.raises(BadInput, match="module of this mixture"):
        mixture.take_weights(Mixture().fit(draw(features=2)).module())


def test_a_basis_may_scale_within_queries() -> None:
    X = np.array([[1.0], [3.0], [5.0], [9.0]], dtype=np.float32)
    mixture = Mixture(("raw", "query_minmax")).fit(X)
    expected = [[0.5], [2.0], [2.5], [5.0]]
    assert mixture.transform(X, qid=[1, 1, 2, 2]).tolist() == expected
    assert mixture.module()(torch.tensor(X), torch.tensor([0, 2, 4])).tolist() == expected
