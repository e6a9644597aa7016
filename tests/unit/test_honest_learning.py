"""The study of learning from biased clicks: swaps are as they are logged, sessions end with their click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import honest_learning

    return honest_learning


def make_frame(lists: int, size: int) -> Any:
    return pd.DataFrame(
        {
            "search_id": np.repeat(np.arange(lists), size), "session_id": np.repeat(np.arange(lists), size),
            "item_id": np.tile(np.arange(size), lists), "wanted": np.tile([1.0] + [0.0] * (size - 1), lists),
        }
    )  # fmt: skip


def test_each_item_stands_where_the_service_would_log_it(study: Any) -> None:
    frame = make_frame(4000, 4)
    shown = study.show_lists(frame, -frame["item_id"].to_numpy(), np.random.default_rng(0))
    for _, one in list(shown.groupby("search_id"))[:200]:
        assert one["position"].tolist() == [1, 2, 3, 4]
        upper = one["swapped"].iloc[0]
        order = [0, 1, 2, 3]
        if upper:
            order[upper - 1], order[upper] = order[upper], order[upper - 1]
        assert one["item_id"].tolist() == order
        assert one["engine_position"].tolist() == [item + 1 for item in order]
    # three pairs, half of the lists: a swapped item had 0.5/3, one at an end that stayed 1 − 0.5/3
    first = shown[shown["engine_position"] == 1]
    np.testing.assert_allclose(first.loc[first["position"] == 1, "shown_probability"], 1 - 0.5 / 3)
    np.testing.assert_allclose(first.loc[first["position"] == 2, "shown_probability"], 0.5 / 3)
    assert (first["position"] == 2).mean() == pytest.approx(0.5 / 3, abs=0.03)


def test_a_session_ends_with_its_first_click(study: Any) -> None:
    frame = make_frame(3, 2).assign(session_id="s", time=np.repeat([1, 2, 3], 2))

    class Second:
        def click_lists(self, relevance: Any, offsets: Any, rng: Any) -> Any:
            return np.array([False, False, True, False, True, False])

    log = study.draw_clicks(frame, Second(), np.random.default_rng(0))
    assert log["search_id"].unique().tolist() == [0, 1]
    assert log["label"].tolist() == [0.0, 0.0, 1.0, 0.0]


def test_true_propensities_of_a_cascade_follow_from_what_stands_above(study: Any) -> None:
    # wanted on top and clicked for sure: nobody goes on, as good as 0; wanted second: half go on
    frame = make_frame(2, 2).assign(wanted=[1.0, 0.0, 0.0, 1.0], position=[1, 2, 1, 2])
    model = study.Cascade(patience=0.5, again=0.0, certainty=1.0, noise=0.0)
    np.testing.assert_allclose(study.find_true_propensity(frame, model), [1.0, 1e-6, 1.0, 0.5])
    assert study.find_true_propensity(frame, study.PositionBased()).tolist() == [1.0, 0.5, 1.0, 0.5]


def test_the_ratio_is_of_sums_and_its_interval_draws_seeds_whole(study: Any) -> None:
    def cell(seed: int, naive: float, true: float, oracle: float) -> dict[str, Any]:
        scores = {"naive": {"mrr": naive}, "true": {"mrr": true}, "oracle": {"mrr": oracle}}
        return {"world": "shop", "seed": seed, "linear": scores}

    cells = [cell(0, 0.5, 0.6, 0.7), cell(1, 0.5, 0.52, 0.52)]  # (0.1 + 0.02) / (0.2 + 0.02)
    value, low, high = study.measure_ratio(cells, "linear", "true", "mrr")
    assert value == pytest.approx(0.12 / 0.22)
    assert (low, high) == pytest.approx((0.5, 1.0))


def test_a_small_log_is_judged_from_end_to_end(study: Any) -> None:
    size = study.Size(shop=300, judged=200, shown=6)
    world = study.make_world("shop", 100, size)
    assert not set(world.lists["search_id"]) & set(world.judged["search_id"])
    cell = study.judge_log(world, "weak", "position", ("linear",))
    assert set(cell["linear"]) == {*study.METHODS, "bare estimated"}
    assert all(0.0 < each["mrr"] <= 1.0 for each in cell["linear"].values())
    assert cell["looks"]["true"][:2] == [1.0, 0.5]
    assert (np.diff(cell["looks"]["estimated"]) <= 1e-12).all()
    facts = {"world": "shop", "seed": 100, "strength": "weak", "clicks": "position", "share": 1.0}
    assert "worst of 1 logs" in study.write_tables([facts | cell], ("linear",))
