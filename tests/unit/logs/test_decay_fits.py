"""Decay functions as Elasticsearch defines them, and their best fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.logs.decay_fits import SHAPES, Observed, fit_decay, observe_distances, score_decay


@pytest.mark.parametrize("kind", SHAPES)
def test_the_score_is_1_up_to_the_offset_and_decay_at_the_scale(kind: str) -> None:
    away = np.array([0.0, 2.0, 5.0, np.nan])
    found = score_decay(away, kind, scale=3.0, offset=2.0, decay=0.3)
    assert found[:3] == pytest.approx([1.0, 1.0, 0.3])
    assert np.isnan(found[3])


def test_the_three_functions_by_hand() -> None:
    away = np.array([6.0])
    assert score_decay(away, "linear", scale=4.0)[0] == pytest.approx(1 - 6 / 8)  # 0 at scale/(1 − decay) = 8
    assert score_decay(np.array([9.0]), "linear", scale=4.0)[0] == 0.0
    assert score_decay(away, "exp", scale=4.0)[0] == pytest.approx(0.5 ** (6 / 4))
    sigma2 = -(4.0**2) / (2 * math.log(0.5))
    assert score_decay(away, "gauss", scale=4.0)[0] == pytest.approx(math.exp(-36 / (2 * sigma2)))


@pytest.mark.parametrize("kind", SHAPES)
def test_a_curve_of_its_own_kind_is_found_again(kind: str) -> None:
    edges = np.linspace(0.0, 10.0, 41)
    middles = (edges[1:] + edges[:-1]) / 2
    fit = fit_decay(Observed(edges, score_decay(middles, kind, scale=3.0, offset=1.0), 0.0, 40), kind)
    assert (fit.scale, fit.offset) == pytest.approx((3.0, 1.0), abs=1e-3)
    assert fit.error < 1e-4
    assert fit.explained == pytest.approx(1.0, abs=1e-6)


def test_how_far_a_curve_stays_off_is_told() -> None:
    edges = np.linspace(0.0, 4.0, 5)
    heights = np.array([0.0, 1.0, 0.0, 0.0])  # no decay begins low
    fit = fit_decay(Observed(edges, heights, 0.0, 4), "gauss")
    gap = score_decay(np.array([0.5, 1.5, 2.5, 3.5]), "gauss", scale=fit.scale, offset=fit.offset) - heights
    assert fit.error == pytest.approx(math.sqrt((gap**2).mean()))
    assert fit.worst == pytest.approx(abs(gap).max())
    assert fit.worst_at in (0.5, 1.5)
    assert fit.explained == pytest.approx(1 - (gap**2).sum() / 0.75)


def test_the_histogram_ends_at_the_quantile_and_says_what_lies_beyond() -> None:
    seen = observe_distances(np.array([*np.arange(1.0, 101.0), np.nan]), bins=10, reach=0.5)
    assert seen.edges[-1] == 50.5
    assert (seen.beyond, seen.count) == (0.5, 100)
    assert seen.heights.max() == 1.0
    assert observe_distances(np.array([np.nan])).count == 0
    assert observe_distances(np.zeros(5)).heights.tolist()[0] == 1.0


def test_bad_parameters_and_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'gauss'"):
        score_decay(np.zeros(1), "gaus", scale=1.0)
    with pytest.raises(BadInput, match="scale must be above 0"):
        score_decay(np.zeros(1), "exp", scale=0.0)
    with pytest.raises(BadInput, match="no distance to fit"):
        fit_decay(observe_distances(np.zeros(0)), "exp")
