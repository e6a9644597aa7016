"""Transformers of scikit-learn, and the user's own, in place of a transform of ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from placings.core.errors import BadInput, UnknownName
from placings.transforms import (
    Gauss,
    Mixture,
    SklearnTransform,
    Transform,
    make_transform,
    register_transform,
    simplify,
)
from placings.transforms.own import OWN_TRANSFORMS

ROWS = np.array([[1.0, 10.0], [2.0, np.nan], [4.0, 40.0], [8.0, 20.0]], dtype=np.float32)
FILLED = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 20.0]])  # the median of 10, 20 and 40


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    OWN_TRANSFORMS.clear()


class Above(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """1 where a value is above `times` the mean."""

    def __init__(self, times: float = 1.0) -> None:
        self.times = times

    def fit(self, X: Any, y: Any = None) -> Above:
        self.means_ = np.asarray(X, dtype=np.float64).mean(axis=0)
        return self

    def transform(self, X: Any) -> Any:
        return (np.asarray(X) > self.times * self.means_).astype(np.float64)

    def get_state(self) -> dict[str, Any]:
        return {"means": self.means_, "made": "here"}

    def set_state(self, state: dict[str, Any]) -> None:
        self.means_ = state["means"]
        assert state["made"] == "here"


def test_missing_values_are_filled_before_the_transformer_sees_them() -> None:
    made = make_transform(PolynomialFeatures(2, include_bias=False), indicator=True).fit(ROWS)
    out = made.transform(ROWS)
    np.testing.assert_allclose(out[:, :-1], PolynomialFeatures(2, include_bias=False).fit_transform(FILLED))
    assert out[:, -1].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert len(made.get_feature_names_out()) == out.shape[1] == 6


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False), RobustScaler(),
        RobustScaler(with_centering=False), MaxAbsScaler(), MinMaxScaler(), MinMaxScaler((-2, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_a_scaler_becomes_ours_with_the_same_numbers(scaler: Any) -> None:
    made = simplify(make_transform(scaler).fit(ROWS))
    assert type(made) is Gauss
    expected = scaler.fit_transform(FILLED)
    np.testing.assert_allclose(made.transform(ROWS), expected, rtol=1e-5, atol=1e-6)  # float32
    facts, arrays = made.state()
    np.testing.assert_array_equal(Transform.from_state(facts, arrays).transform(ROWS), made.transform(ROWS))


def test_a_scaler_that_clips_stays_what_it_is() -> None:
    made = make_transform(MinMaxScaler(clip=True)).fit(ROWS)
    assert simplify(made) is made


def test_the_module_gives_the_numbers_of_the_transformer() -> None:
    import torch

    made = make_transform(PCA(1)).fit(ROWS)
    np.testing.assert_allclose(made.module()(torch.from_numpy(ROWS)).numpy(), made.transform(ROWS), rtol=1e-6)
    with pytest.raises(BadInput, match="for which ONNX has no form"):
        made.module(export=True)


def test_a_state_is_a_registered_name_with_plain_values_and_arrays() -> None:
    with pytest.raises(BadInput, match="a bundle holds no code. Register it"):
        make_transform(Above()).fit(ROWS).state()
    register_transform("above", Above)
    for given in ("above", Above(times=0.5)):
        made = make_transform(given).fit(ROWS)
        facts, arrays = made.state()
        assert (facts["transform"], facts["own"]) == ("above", {"made": "here"})
        assert {"own.means", "fill", "indicator"} == set(arrays)
        back = Transform.from_state(facts, arrays)
        np.testing.assert_array_equal(back.transform(ROWS), made.transform(ROWS))


def test_a_state_whose_name_is_not_registered_says_which_to_register() -> None:
    register_transform("above", Above)
    facts, arrays = make_transform("above").fit(ROWS).state()
    OWN_TRANSFORMS.clear()
    with pytest.raises(
        BadInput,
        match=r"Got 'above'. If it is one of your own, call pg.register_transform\('above', …\) first",
    ):
        Transform.from_state(facts, arrays)


def test_what_it_learned_can_be_told_by_functions_or_is_nothing() -> None:
    register_transform("cube", lambda: FunctionTransformer(np.cbrt))
    facts, arrays = make_transform("cube").fit(ROWS).state()
    np.testing.assert_allclose(Transform.from_state(facts, arrays).transform(ROWS[:1]), np.cbrt(ROWS[:1]))
    register_transform("pca", lambda: PCA(1))
    with pytest.raises(
        BadInput, match=r"'pca' \(PCA\) does not say what it learned.*get_state=…, set_state=…"
    ):
        make_transform("pca").fit(ROWS).state()
    names = ("mean_", "components_", "explained_variance_")

    def put(made: Any, state: dict[str, Any]) -> None:
        vars(made).update(state)

    register_transform(
        "pca", lambda: PCA(1), get_state=lambda p: {n: getattr(p, n) for n in names}, set_state=put
    )
    made = make_transform("pca").fit(ROWS)
    facts, arrays = made.state()
    np.testing.assert_allclose(Transform.from_state(facts, arrays).transform(ROWS), made.transform(ROWS))


def test_a_transform_class_of_the_user_is_saved_under_its_registered_name() -> None:
    class Doubled(Gauss):
        def _compute(self, X: Any, offsets: Any) -> Any:
            return 2.0 * super()._compute(X, offsets)

    register_transform("doubled", Doubled)
    made = make_transform("doubled").fit(ROWS)
    facts, arrays = made.state()
    back = Transform.from_state(facts, arrays)
    assert type(back) is Doubled
    np.testing.assert_allclose(back.transform(ROWS), 2.0 * Gauss().fit(ROWS).transform(ROWS), rtol=1e-6)


def test_what_cannot_be_a_transform_or_a_state_is_refused() -> None:
    with pytest.raises(BadInput, match="must be a name such as 'cdf', a Transform, or a scikit-learn"):
        make_transform(7)
    with pytest.raises(UnknownName, match=r"pg.register_transform\('zzz', …\)"):
        make_transform("zzz")
    with pytest.raises(BadInput, match="makes a transformer with fit and transform"):
        register_transform("seven", lambda: 7)
    with pytest.raises(BadInput, match="Give yours another name"):
        register_transform("cdf", Above)
    with pytest.raises(BadInput, match="get_state and set_state belong together"):
        register_transform("above", Above, get_state=lambda made: {})
    for state, said in (
        ({"x": object()}, "plain values and arrays"),
        ({"x": np.array(["a"])}, "array of numbers"),
        (7, "dict by names"),
    ):
        register_transform("above", Above, get_state=lambda made, s=state: s, set_state=lambda made, s: None)
        with pytest.raises(BadInput, match=said):
            make_transform("above").fit(ROWS).state()
    with pytest.raises(BadInput, match="gives NaN in column 0"):
        make_transform(FunctionTransformer(lambda X: np.full_like(X, np.nan))).fit(ROWS)
    with pytest.raises(BadInput, match="made of the transforms of placings"):
        Mixture(["above", "cdf"]).fit(ROWS)
    with pytest.raises(BadInput, match="fitted on all rows at once"):
        SklearnTransform(StandardScaler()).fit(ROWS).partial_fit(ROWS)
    made = SklearnTransform(StandardScaler()).fit(ROWS)
    with pytest.raises(BadInput, match="do not merge"):
        made.merge(made)
