"""Click models: how often which position is clicked, and that it is what the model says of itself."""

from __future__ import annotations

import time

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.simulate.click_models import (
    CLICK_MODELS,
    Cascade,
    ClickModel,
    DynamicBayesian,
    PositionBased,
    TrustBias,
    find_click_model,
)

LISTS = 40_000
NAMES = sorted(CLICK_MODELS)


def count_clicks(model: ClickModel, relevance: list[float], lists: int = LISTS) -> np.ndarray:
    """The share of lists in which each position is clicked."""
    k = len(relevance)
    offsets = np.arange(lists + 1) * k
    clicked = model.click_lists(np.tile(relevance, lists), offsets, np.random.default_rng(0))
    shares: np.ndarray = clicked.reshape(lists, k).mean(axis=0)
    return shares


def test_a_position_is_clicked_as_often_as_the_position_based_model_says() -> None:
    model = PositionBased(eta=1.0, certainty=0.9, noise=0.1)
    expected = [0.9 / 1, 0.1 / 2, 0.5 / 3, 0.9 / 4]  # look · (noise + (certainty − noise) · relevance)
    assert count_clicks(model, [1.0, 0.0, 0.5, 1.0]) == pytest.approx(expected, abs=0.01)
    assert model.propensity(4) == pytest.approx([0.9, 0.45, 0.3, 0.225])


def test_trust_adds_wrong_clicks_at_the_top_and_none_where_the_item_is_relevant() -> None:
    model = TrustBias(eta=0.0, certainty=0.9, noise=0.0, trust=0.4)
    assert count_clicks(model, [0.0, 0.0, 0.0, 1.0]) == pytest.approx([0.4, 0.2, 0.4 / 3, 0.9], abs=0.01)
    assert TrustBias(trust=1.0, noise=0.5, certainty=0.8).mistake(2).tolist() == [0.8, 0.8]


def test_a_cascade_ends_at_a_click_and_at_the_end_of_patience() -> None:
    model = Cascade(patience=0.5, again=0.0, certainty=1.0, noise=0.0)
    shown = [0.0, 0.5, 1.0, 1.0]
    looks = [1.0, 0.5, 0.5 * 0.5 * 0.5, 0.0]  # position 3: not clicked at 2 (one half), patient twice
    assert model.examination(4, shown) == pytest.approx(looks)
    assert count_clicks(model, shown) == pytest.approx([0.0, 0.25, 0.125, 0.0], abs=0.01)


def test_a_reader_who_goes_on_after_a_click_may_click_again() -> None:
    model = Cascade(patience=1.0, again=0.6, certainty=1.0, noise=0.0)
    assert count_clicks(model, [1.0, 1.0, 1.0]) == pytest.approx([1.0, 0.6, 0.36], abs=0.01)


def test_readers_of_a_dynamic_bayesian_network_go_on_until_a_click_has_satisfied_them() -> None:
    model = DynamicBayesian(patience=0.8, satisfaction=0.5, certainty=1.0, noise=0.0)
    shown = [1.0, 0.0, 0.6, 1.0]
    second = 0.8 * (1 - 1.0 * 0.5 * 1.0)  # patient, and not satisfied by the click on the first
    fourth = (
        second * 0.8 * 0.8 * (1 - 0.6 * 0.5 * 0.6)
    )  # nothing to click at 2; at 3 attraction · satisfaction
    assert model.examination(4, shown) == pytest.approx([1.0, second, second * 0.8, fourth])
    assert count_clicks(model, shown) == pytest.approx([1.0, 0.0, second * 0.8 * 0.6, fourth], abs=0.01)


def test_nobody_reads_on_after_a_click_that_always_satisfies() -> None:
    model = DynamicBayesian(patience=1.0, satisfaction=1.0, certainty=1.0, noise=0.0)
    assert count_clicks(model, [1.0, 1.0, 1.0]).tolist() == [1.0, 0.0, 0.0]
    tireless = DynamicBayesian(patience=1.0, satisfaction=0.0, certainty=1.0, noise=0.0)
    assert count_clicks(tireless, [1.0, 1.0, 1.0]).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", NAMES)
def test_the_propensity_is_the_share_of_clicks_on_a_relevant_item_at_that_position(name: str) -> None:
    model = find_click_model(name)
    for position in (1, 3, 6):
        shown = [0.0] * 6
        shown[position - 1] = 1.0
        expected = model.propensity(6, shown)[position - 1]
        assert count_clicks(model, shown)[position - 1] == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("name", NAMES)
def test_noise_clicks_on_what_nobody_wants(name: str) -> None:
    quiet = {"noise": 0.0, **({"trust": 0.0} if name == "trust" else {})}
    model = type(find_click_model(name))(**quiet)  # type: ignore[arg-type]
    assert count_clicks(model, [0.0] * 5).sum() == 0.0
    assert count_clicks(find_click_model(name), [0.0] * 5).sum() > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_clicks_are_positions_from_1_in_rising_order_and_follow_the_seed(name: str) -> None:
    model = find_click_model(name)
    shown = [0.9, 0.2, 1.0, 0.7]
    drawn = [model.click(shown, np.random.default_rng(seed)).tolist() for seed in range(50)]
    assert drawn == [model.click(shown, np.random.default_rng(seed)).tolist() for seed in range(50)]
    assert all(clicks == sorted(set(clicks)) and set(clicks) <= {1, 2, 3, 4} for clicks in drawn)
    assert max(len(clicks) for clicks in drawn) >= 1


@pytest.mark.parametrize("name", NAMES)
def test_empty_lists_get_no_click(name: str) -> None:
    model, rng = find_click_model(name), np.random.default_rng(0)
    assert model.click([], rng).tolist() == []
    assert model.click_lists([1.0], [0, 0, 1, 1], rng).shape == (1,)
    assert model.click_lists([], [0], rng).shape == (0,)
    assert model.examination(0).tolist() == []


@pytest.mark.parametrize("name", NAMES)
def test_lists_of_unlike_lengths_do_not_mix(name: str) -> None:
    """A list alone has the same chances as among others: only its own rows count."""
    model = find_click_model(name)
    relevance = [1.0, 1.0, 0.0, 0.0, 1.0]  # a list of one item, then one of four, and so on
    offsets = np.concatenate([[0], np.cumsum(np.tile([1, 4], 20_000))])
    clicked = model.click_lists(np.tile(relevance, 20_000), offsets, np.random.default_rng(1))
    expected = [model.propensity(1)[0], *model.propensity(4, relevance[1:])[[0, 3]]]
    assert clicked.reshape(-1, 5).mean(axis=0)[[0, 1, 4]] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_twenty_thousand_lists_take_a_moment(name: str) -> None:
    relevance = np.random.default_rng(0).random(20_000 * 40)
    began = time.perf_counter()
    find_click_model(name).click_lists(relevance, np.arange(20_001) * 40, np.random.default_rng(0))
    assert time.perf_counter() - began < 2.0


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: PositionBased(eta=-1.0), "eta must be 0 or more"),
        (lambda: PositionBased(noise=1.5), "noise must lie between 0 and 1"),
        (lambda: Cascade(patience=2.0), "patience must lie between 0 and 1"),
        (lambda: DynamicBayesian(satisfaction=-0.1), "satisfaction must lie between 0 and 1"),
        (lambda: DynamicBayesian().examination(3, [1.0]), "a value for each of 3 positions. Got 1"),
        (lambda: TrustBias(certainty=0.1, noise=0.2), "noise must not be above certainty"),
        (lambda: find_click_model(7), "clicks must be a click model"),  # type: ignore[arg-type]
        (lambda: Cascade().examination(3, [1.0]), "for each of 3 positions. Got 1"),
        (lambda: PositionBased().examination(-1), "k must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: object, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        make()  # type: ignore[operator]


def test_a_model_that_is_not_known_and_relevance_that_is_none_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'cascade'"):
        find_click_model("cascad")
    for wrong in (1.5, -0.1, float("nan")):
        with pytest.raises(BadInput, match=r"between 0 and 1. Got .* at row 1"):
            PositionBased().click([0.0, wrong], np.random.default_rng(0))
