"""Coverage at risk: planted losses are found, segments and windows are respected, and noise costs nothing."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from placings.core.arrays import Floats
from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.evaluation.scoring import evaluate
from placings.feco.masking import darken, summarise_coverage
from placings.feco.risk import TOTAL, estimate_risk
from placings.simulate.rankings import make_ranking

STEP = 1 - 1 / np.log2(3)  # what a query of two rows loses when its order turns


class Plain:
    """One weight a feature."""

    def __init__(self, *weights: float) -> None:
        self.weights = np.array(weights)

    def predict(self, data: RankingData) -> Floats:
        return np.nan_to_num(np.asarray(data.X, dtype=np.float64)) @ self.weights


@pytest.fixture(scope="module")
def pairs() -> RankingData:
    """200 queries of two rows, the wrong one first; either feature alone orders them rightly."""
    queries = 200
    good = np.tile([1.0, 2.0], queries)
    region = np.repeat(np.where(np.arange(queries) % 4 == 0, "north", "south"), 2)
    return RankingData.from_arrays(
        np.column_stack([good, good]), np.tile([0, 1], queries), np.repeat(np.arange(queries), 2),
        feature_names=["a", "b"], segments={"region": region},
    )  # fmt: skip


def frame(*rows: tuple[Any, ...], header: str = "feature region coverage events") -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=header.split())


def test_a_feature_costs_what_its_dark_events_lose_in_their_segment(pairs: RankingData) -> None:
    today = frame(("a", "north", 0.2, 10_000), ("a", "south", 1.0, 10_000))
    risk = estimate_risk(Plain(1, 0), pairs, today)
    expected = 0.25 * 0.8 * STEP  # a quarter of the queries, four fifths of them dark
    assert risk["a"].lost == pytest.approx(expected)
    assert risk["a"].low < expected < risk["a"].high
    assert risk["a"].percent == pytest.approx(100 * expected)
    assert risk["a"].coverage_before == 1.0
    assert risk["a"].coverage_after == pytest.approx(0.8)
    assert risk.total.lost == risk["a"].lost
    parts = risk.by_segment().set_index("region")
    assert parts["masked"].to_dict() == {"north": pytest.approx(0.8), "south": 0.0}
    assert parts["lost"].to_dict() == {"north": pytest.approx(expected), "south": 0.0}


def test_the_total_is_no_sum_where_features_stand_in_for_each_other(pairs: RankingData) -> None:
    rows = [(name, region, 0.5, 10_000) for name in "ab" for region in ("north", "south")]
    today = frame(*rows)
    ranker = Plain(1, 1)
    apart = estimate_risk(ranker, pairs, today, jointly="independent")
    together = estimate_risk(ranker, pairs, today, jointly="together")
    assert (apart["a"].lost, apart["b"].lost) == (0.0, 0.0)  # the other one still orders the rows
    assert apart.total.lost == pytest.approx(0.25 * STEP, rel=0.1)  # both are dark in half of a half
    assert together.total.lost == pytest.approx(0.5 * STEP)  # in the same half
    assert "independently" in apart.assumption
    assert "the same events first" in together.assumption


def test_the_result_states_its_assumption_and_reads_as_a_table(pairs: RankingData) -> None:
    today = frame(("a", "north", 0.2, 500), ("a", "south", 1.0, 500), ("b", "north", 1.0, 500),
                  ("b", "south", 1.0, 500))  # fmt: skip
    risk = estimate_risk(Plain(1, 0), pairs, today, name="judged queries of May")
    assert "at random within each segment (region)" in risk.assumption
    assert "200 queries of judged queries of May" in risk.assumption
    text = risk.table()
    assert risk.assumption in text
    assert TOTAL in text
    assert "100.0% → 80.0%" in text
    assert "1 of 2 features did not fall." in text
    assert "ndcg@10 lost" in text
    rows = risk.to_pandas()
    assert rows["feature"].tolist() == ["a", "b", TOTAL]
    assert json.loads(risk.to_json())["total"]["lost"] == pytest.approx(risk.total.lost)
    assert "<table>" in risk._repr_html_()


def test_a_healthy_day_costs_nothing(pairs: RankingData) -> None:
    healthy = summarise_coverage(pairs, by="region")
    risk = estimate_risk(Plain(1, 1), pairs, healthy)
    assert (risk.total.lost, risk.total.low, risk.total.high) == (0.0, 0.0, 0.0)


def test_a_drop_that_chance_explains_is_left_alone_unless_asked_for(pairs: RankingData) -> None:
    today = frame(("a", "north", 0.97, 30), ("a", "south", 1.0, 30))
    assert estimate_risk(Plain(1, 0), pairs, today).total.lost == 0.0
    asked = estimate_risk(Plain(1, 0), pairs, today, skip_noise=False)
    assert asked.total.lost == pytest.approx(0.25 * 0.03 * STEP, rel=0.1)
    large = today.assign(events=100_000)
    sure = darken(pairs, {"a": np.zeros(pairs.n_rows, dtype=bool)})
    assert estimate_risk(Plain(1, 0), sure, large.assign(coverage=[0.8, 1.0])).total.lost > 0.0


def test_a_usual_frame_says_what_the_reference_cannot(pairs: RankingData) -> None:
    """The reference has the feature everywhere, the traffic never had it in more than half of the events."""
    today = frame(("a", "north", 0.25, 5_000), ("a", "south", 0.5, 5_000))
    usual = frame(("a", "north", 0.5, 5_000), ("a", "south", 0.5, 5_000))
    risk = estimate_risk(Plain(1, 0), pairs, today, usual=usual)
    assert risk.total.lost == pytest.approx(0.25 * 0.5 * STEP)
    assert estimate_risk(Plain(1, 0), pairs, today).total.lost > 2 * risk.total.lost


def test_few_events_today_make_the_interval_wider(pairs: RankingData) -> None:
    rows = [("a", "north", 0.5), ("a", "south", 0.5)]
    widths = []
    for events in (20, 100_000):
        today = frame(*[(*row, events) for row in rows])
        found = estimate_risk(Plain(1, 0), pairs, today, skip_noise=False).total
        widths.append(found.high - found.low)
    assert widths[0] > 1.5 * widths[1]


def test_rows_can_be_the_unit_and_their_segment_may_differ_within_a_query() -> None:
    queries = 100
    X = np.tile([1.0, 2.0], queries)[:, None]
    kind = np.tile(["old", "new"], queries)
    data = RankingData.from_arrays(X, np.tile([0, 1], queries), np.repeat(np.arange(queries), 2),
                                   segments={"kind": kind})  # fmt: skip
    today = frame(("f1", "old", 1.0, 900), ("f1", "new", 0.0, 900), header="feature kind coverage events")
    risk = estimate_risk(Plain(1), data, today, unit="row")
    assert risk.total.lost == pytest.approx(STEP)  # the right row is the new one, dark in every query
    assert risk.by_segment().set_index("kind")["lost"].to_dict() == {"old": 0.0, "new": pytest.approx(STEP)}
    with pytest.raises(BadInput, match="same in all rows of a query"):
        estimate_risk(Plain(1), data, today, unit="event")


def test_the_latest_window_is_today(pairs: RankingData) -> None:
    days = pd.to_datetime(["2026-01-01", "2026-01-02"])
    today = pd.DataFrame({"feature": "a", "window": days, "coverage": [1.0, 0.5], "events": 9_000})
    risk = estimate_risk(Plain(1, 0), pairs, today)
    assert risk.total.lost == pytest.approx(0.5 * STEP)
    assert any("2026-01-02" in note for note in risk.notes)


def test_what_does_not_fit_is_noted_and_costs_nothing(pairs: RankingData) -> None:
    today = frame(("a", "north", float("nan"), 0), ("a", "west", 0.1, 900), ("c", "north", 0.1, 900),
                  ("b", "north", 1.0, 900), ("b", "south", 1.0, 900))  # fmt: skip
    risk = estimate_risk(Plain(1, 1), pairs, today)
    notes = " ".join(risk.notes)
    assert risk.total.lost == 0.0
    assert "Segments not in the reference, so not judged: west." in notes
    assert "Not in the reference, so not judged: c." in notes
    assert "No coverage known today, so nothing masked there: north, south." in notes


def test_a_planted_outage_on_generated_data_lies_in_the_interval() -> None:
    data = make_ranking(900, n_features=4, mean_size=15, random_state=0).data
    region = np.repeat(np.arange(900) % 3 == 0, data.sizes)
    data = data.replace(segments={"region": np.where(region, "north", "south")})
    reference, day = data[:300], data[300:]
    ranker = Plain(0.0, 0.0, 1.0, 0.0)
    dark = np.repeat((np.arange(600) % 3 == 0) & (np.random.default_rng(0).random(600) < 0.7), day.sizes)
    broken = darken(day, {data.feature_names[2]: dark})
    before, after = (evaluate(ranker, each, "ndcg@10", bootstrap=0)["ndcg@10"] for each in (day, broken))
    risk = estimate_risk(ranker, reference, summarise_coverage(broken, by="region"))
    assert before - after > 0.02
    assert risk.total.low <= before - after <= risk.total.high
    assert risk.total.lost == pytest.approx(before - after, rel=0.3)
    assert risk.features[0].feature == data.feature_names[2]


def test_what_coverage_counts_in_a_log_is_what_the_risk_takes_as_today(pairs: RankingData) -> None:
    pytest.importorskip("ibis")
    from placings.feco.score import coverage

    dark = np.repeat(np.arange(200) % 8 == 0, 2)  # half of the north
    broken = darken(pairs, {"a": dark})
    today = coverage(broken, event="qid", by="region")
    pd.testing.assert_frame_equal(
        today.to_pandas(), summarise_coverage(broken, by="region"), check_dtype=False, rtol=1e-6
    )
    assert estimate_risk(Plain(1, 0), pairs, today).total.lost == pytest.approx(0.125 * STEP)


def test_the_same_seed_gives_the_same_risk(pairs: RankingData) -> None:
    today = frame(("a", "north", 0.5, 900), ("a", "south", 0.9, 900))
    one, two = (estimate_risk(Plain(1, 0), pairs, today, random_state=3).to_dict() for _ in range(2))
    assert one == two


def test_less_is_better_of_some_metrics_and_a_loss_is_still_above_0(pairs: RankingData) -> None:
    today = frame(("a", "north", 0.0, 900), ("a", "south", 0.0, 900))
    risk = estimate_risk(Plain(1, 0), pairs, today, metric="rank")
    assert risk.total.lost == pytest.approx(1.0)  # the relevant row falls from rank 1 to 2


def test_risk_is_drawn_with_its_total() -> None:
    pytest.importorskip("matplotlib")
    from placings.report.coverage_figures import draw_risk

    data = make_ranking(40, n_features=2, mean_size=10, random_state=0).data
    today = pd.DataFrame({"feature": data.feature_names, "coverage": [0.3, 1.0], "events": 900})
    svg = draw_risk(estimate_risk(Plain(1, 0), data, today))
    assert svg.startswith("<svg")
    assert TOTAL in svg
    assert "click_count_log_1" in svg


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"today": 3}, BadInput, "must be a coverage frame"),
        ({"today": frame(("a", "north", 0.5, 9)).drop(columns="coverage")}, BadInput, "no column 'coverage'"),
        ({"today": frame(("a", "north", 50.0, 9))}, BadInput, "share from 0 to 1"),
        ({"today": frame(("a", "north", 0.5, 9), ("a", "north", 0.6, 9))}, BadInput, "several rows"),
        ({"today": frame(("c", "north", 0.5, 9))}, BadInput, "no feature of today's coverage"),
        ({"by": "area"}, UnknownName, "segment of the reference"),
        ({"features": ["c"]}, UnknownName, "feature in today's coverage"),
        ({"jointly": "both"}, UnknownName, "way to go dark"),
        ({"metric": "ndgc"}, UnknownName, "did you mean 'ndcg'"),
        ({"draws": 0}, BadInput, "draws must be"),
        ({"random_state": -1}, BadInput, "random_state must be"),
    ],
)
def test_bad_questions_get_clear_answers(
    pairs: RankingData, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    asked: dict[str, Any] = {"today": frame(("a", "north", 0.5, 900), ("a", "south", 0.9, 900))} | given
    with pytest.raises(error, match=message):
        estimate_risk(Plain(1, 0), pairs, **asked)


def test_a_reference_without_labels_is_refused(pairs: RankingData) -> None:
    today = frame(("a", "north", 0.5, 900), ("a", "south", 0.9, 900))
    with pytest.raises(BadInput, match="nothing is relevant"):
        estimate_risk(Plain(1, 0), pairs.replace(y=np.zeros(pairs.n_rows)), today)
