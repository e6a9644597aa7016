"""Rankers by their short names, and over a transform as `NAME:TRANSFORM`."""

from __future__ import annotations

import numpy as np
import pytest

import placings as pg
from placings.core.errors import BadInput, UnknownName


def test_a_name_with_a_transform_is_the_ranker_over_it() -> None:
    data = pg.make_ranking(12, n_features=4, mean_size=8, random_state=0).data
    short, long = pg.make_ranker("ridge:log1p", C=2.0), pg.LinearRanker("ridge", C=2.0, transform="log1p")
    assert short.get_params() == long.get_params()
    np.testing.assert_array_equal(short.fit(data).predict(data), long.fit(data).predict(data))
    assert pg.make_ranker("neural:cdf").get_params()["transform"] == "cdf"


def test_a_transform_that_cannot_be_is_refused() -> None:
    with pytest.raises(UnknownName, match="no setting of lightgbm 'transform'"):
        pg.make_ranker("lightgbm:gauss")
    with pytest.raises(UnknownName, match="no ranker 'rigde'"):
        pg.make_ranker("rigde:gauss")
    with pytest.raises(BadInput, match=r"names a transform.*another one: 'cdf'"):
        pg.make_ranker("ridge:gauss", transform="cdf")
    with pytest.raises(BadInput, match="behind the colon stands a transform"):
        pg.make_ranker("ridge:")
    assert pg.make_ranker("ridge:cdf", transform="cdf").get_params()["transform"] == "cdf"


def test_a_contest_takes_such_a_name() -> None:
    data = pg.make_ranking(20, n_features=4, mean_size=8, random_state=0).data
    found = pg.compare_trained(data, ["ridge", "ridge:log1p"], folds=3, baseline="ridge").comparison
    assert found["ridge"]["ndcg@10"] != found["ridge:log1p"]["ndcg@10"]
