"""Made data: MSLR's character, and signals that are where the truth says they are."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from placings.core.errors import BadInput, UnknownName
from placings.data.quality import describe_features
from placings.simulate.rankings import KINDS, Synthetic, make_ranking


def apply_scale(x: Any, scale: str | None) -> Any:
    """The three transforms: x, sign(x)·log1p|x|, the share of values strictly below."""
    x = x.astype(np.float64)
    if scale == "log":
        return np.sign(x) * np.log1p(np.abs(x))
    if scale == "rank":
        return (rankdata(x, method="min") - 1) / len(x)
    return x


def mean_ndcg(scores: Any, labels: Any, offsets: Any, k: int = 10) -> float:
    """NDCG@k, the slow and obvious way, over queries with something relevant."""
    values = []
    for start, stop in pairwise(offsets):
        gain = 2.0 ** labels[start:stop] - 1
        if gain.any():
            discount = 1 / np.log2(np.arange(2, min(k, stop - start) + 2))
            best = np.sort(gain)[::-1][:k]
            got = gain[np.argsort(-scores[start:stop], kind="stable")][:k]
            values.append((got * discount).sum() / (best * discount).sum())
    return float(np.mean(values))


def fit_ridge(X: Any, y: Any, rows: int) -> Any:
    """What a ridge on standardised columns, fitted to the first `rows`, predicts for the others."""
    Z = (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)
    Z, later, known = Z[:rows], Z[rows:], y[:rows]
    weights = np.linalg.solve(Z.T @ Z + np.eye(Z.shape[1]), Z.T @ (known - known.mean()))
    return later @ weights + known.mean()


@pytest.fixture(scope="module")
def made() -> Synthetic:
    return make_ranking(300, random_state=7)


def test_the_character_is_that_of_mslr(made: Synthetic) -> None:
    facts = describe_features(made.data)
    assert made.data.n_features == 136
    assert 1e7 < max(fact.maximum for fact in facts) <= 1e8
    assert sum(abs(fact.skew) > 3 for fact in facts) >= 30
    assert sum(fact.constant for fact in facts) == 3
    assert sum(fact.zeros > 0.8 for fact in facts) >= 10
    assert sum(fact.minimum >= 0 and fact.maximum <= 1 and not fact.constant for fact in facts) >= 24
    assert sum(fact.maximum <= 0 and fact.minimum < 0 for fact in facts) >= 10
    assert sum(fact.negatives > 0 for fact in facts) >= 15
    assert all(fact.missing == 0 for fact in facts)


def test_labels_have_the_shares_asked_for(made: Synthetic) -> None:
    shares = np.bincount(made.data.y.astype(int)) / made.data.n_rows
    np.testing.assert_allclose(shares, [0.52, 0.32, 0.13, 0.02, 0.01], atol=1e-4)
    halves = make_ranking(20, n_features=3, random_state=0, label_shares=(0.5, 0.5)).data
    assert halves.y.sum() == round(halves.n_rows / 2)


def test_about_three_in_a_hundred_queries_have_nothing_relevant() -> None:
    data = make_ranking(2000, n_features=2, random_state=1).data
    relevant = np.maximum.reduceat(data.y, data.offsets[:-1]) > 0
    assert 0.028 <= 1 - relevant.mean() <= 0.04


def test_list_sizes_run_from_1_to_1250_about_a_mean_of_120() -> None:
    sizes = make_ranking(6000, n_features=1, random_state=0).data.sizes
    assert sizes.min() == 1
    assert 800 < sizes.max() <= 1250
    assert 116 < sizes.mean() < 124
    small = make_ranking(500, n_features=1, random_state=0, mean_size=10, max_size=20).data.sizes
    assert small.max() <= 20
    assert 8 < small.mean() < 11


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_planted_scale_is_a_straight_line_of_the_component_and_the_others_are_not(seed: int) -> None:
    made = make_ranking(60, random_state=seed)
    planted = [truth for truth in made.truth if truth.scale]
    assert Counter(truth.scale for truth in planted) == {"log": 12, "rank": 10, "raw": 10}
    for truth in planted:
        values = made.data.X[:, made.data.feature_names.index(truth.name)]
        hidden = made.component(truth.name)
        found = {s: np.corrcoef(apply_scale(values, s), hidden)[0, 1] for s in ("raw", "log", "rank")}
        others = max(value for scale, value in found.items() if scale != truth.scale)
        assert found[str(truth.scale)] > 0.999, truth
        assert others < 0.95, (truth, found)


def test_the_signal_is_the_weighted_sum_of_the_components(made: Synthetic) -> None:
    planted = [truth for truth in made.truth if truth.scale]
    total = sum(truth.weight * made.component(truth.name) for truth in planted)
    np.testing.assert_allclose(made.signal, total, atol=1e-5)
    assert sum(truth.weight**2 for truth in planted) == pytest.approx(1.0)
    assert all(truth.weight == 0.0 for truth in made.truth if not truth.scale)
    assert 0.9 < made.signal.std() < 1.1


def test_each_planted_scale_ranks_better_than_any_one_scale_for_all(made: Synthetic) -> None:
    data = made.data[:200]
    rows = int(data.offsets[100])
    scales = [truth.scale for truth in made.truth]
    ndcg, error = {}, {}
    for name in ("planted", "raw", "log", "rank"):
        chosen = scales if name == "planted" else [name] * len(scales)
        columns = [apply_scale(x, scale) for x, scale in zip(data.X.T, chosen, strict=True)]
        predicted = fit_ridge(np.stack(columns, axis=1), data.y, rows)
        ndcg[name] = mean_ndcg(predicted, data.y[rows:], data.offsets[100:] - rows)
        error[name] = float(((predicted - data.y[rows:]) ** 2).mean())
    assert all(ndcg["planted"] > ndcg[name] + 0.02 for name in ("raw", "log", "rank")), ndcg
    assert all(error["planted"] < error[name] for name in ("raw", "log", "rank")), error


def test_the_best_possible_ranker_is_good_but_not_perfect(made: Synthetic) -> None:
    data = made.data
    assert 0.62 < mean_ndcg(made.signal, data.y, data.offsets) < 0.75
    clear = make_ranking(50, random_state=0, noise=0.0)
    assert mean_ndcg(clear.signal, clear.data.y, clear.data.offsets) == pytest.approx(1.0, abs=1e-6)


def test_the_same_seed_gives_the_same_bits_however_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_THREADS", "1")
    alone = make_ranking(12, random_state=3, missing=0.1)
    monkeypatch.setenv("PLACINGS_THREADS", "4")
    again = make_ranking(12, random_state=3, missing=0.1)
    assert alone.data.X.tobytes() == again.data.X.tobytes()
    assert alone.data.y.tobytes() == again.data.y.tobytes()
    assert alone.signal.tobytes() == again.signal.tobytes()
    assert alone.truth == again.truth
    other = make_ranking(12, random_state=4, missing=0.1)
    assert other.data.X.tobytes() != alone.data.X.tobytes()


def test_without_a_seed_the_data_differ_and_say_the_seed_that_makes_them_again() -> None:
    one, other = make_ranking(2, n_features=4), make_ranking(2, n_features=4)
    assert one.seed != other.seed
    again = make_ranking(2, n_features=4, random_state=one.seed)
    np.testing.assert_array_equal(one.data.X, again.data.X)


def test_a_column_does_not_depend_on_how_many_follow_it() -> None:
    few, many = make_ranking(5, n_features=3, random_state=0), make_ranking(5, n_features=140, random_state=0)
    np.testing.assert_array_equal(few.data.X, many.data.X[:, :3])
    assert many.truth[136].kind == many.truth[0].kind
    assert len(set(many.data.feature_names)) == 140


def test_the_mix_of_kinds_scales_with_the_number_of_features(made: Synthetic) -> None:
    assert Counter(truth.kind for truth in made.truth) == {name: kind.number for name, kind in KINDS.items()}
    half = Counter(truth.kind for truth in make_ranking(1, n_features=68, random_state=0).truth)
    assert all(abs(half[name] - kind.number / 2) <= 1 for name, kind in KINDS.items())
    three = make_ranking(1, n_features=3, random_state=0).truth
    assert [truth.scale for truth in three] == ["log", "rank", "raw"]


def test_names_say_kind_scale_and_place(made: Synthetic) -> None:
    for place, truth in enumerate(made.truth, 1):
        assert (
            truth.name
            == made.data.feature_names[place - 1]
            == f"{truth.kind}_{truth.scale or 'none'}_{place}"
        )


def test_query_features_are_the_same_throughout_a_query(made: Synthetic) -> None:
    place = next(place for place, truth in enumerate(made.truth) if truth.kind == "query_idf")
    first = made.data[0].X[:, place]
    assert (first == first[0]).all()
    assert len(np.unique(made.data.X[:, place])) > 100


def test_one_query_one_feature_and_one_row_work() -> None:
    tiny = make_ranking(1, n_features=1, random_state=0, mean_size=1, max_size=1)
    assert tiny.data.X.shape == (1, 1)
    assert make_ranking(1, random_state=0).data.n_queries == 1


def test_missing_values_and_item_ids_come_on_request() -> None:
    made = make_ranking(20, n_features=6, random_state=0, missing=0.25, items=True)
    assert 0.22 < np.isnan(made.data.X).mean() < 0.28
    assert made.data.items is not None
    assert len(np.unique(made.data.items)) == made.data.n_rows
    assert make_ranking(2, n_features=1).data.items is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_queries": 0},
        {"n_queries": 2.5},
        {"n_features": -1},
        {"n_features": True},
        {"noise": -0.1},
        {"noise": "much"},
        {"missing": 1.5},
        {"missing": float("nan")},
        {"mean_size": 0},
        {"mean_size": 300, "max_size": 200},
        {"max_size": 0},
        {"label_shares": (0.5, 0.4)},
        {"label_shares": (1.5, -0.5)},
        {"label_shares": ("half", "half")},
        {"label_shares": ()},
        {"random_state": -1},
        {"random_state": "seven"},
    ],
)
def test_bad_arguments_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        make_ranking(**{"n_queries": 3, "n_features": 3, **wrong})


def test_a_feature_without_signal_has_no_component(made: Synthetic) -> None:
    idle = next(truth.name for truth in made.truth if not truth.scale)
    with pytest.raises(BadInput, match="without a signal"):
        made.component(idle)
    with pytest.raises(UnknownName, match="did you mean 'bm25_raw_3'"):
        made.component("bm25_raw")
