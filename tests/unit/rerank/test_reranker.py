"""A re-ranker: one live request equals the batch, the guard is heeded, and what is saved comes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from towns import TownEngine, make_towns

from placings.core.errors import BadBundle, BadInput
from placings.logs.histories import add_past_clicks
from placings.places.place import Place
from placings.places.presets import place_features
from placings.rankers.linear import LinearRanker
from placings.rerank.engines import Engine
from placings.rerank.guard import Guard, KindVerdict, fit_guard
from placings.rerank.requests import Hit, Request
from placings.rerank.reranker import Reranker, load_reranker
from placings.rerank.search_kinds import describe_searches
from placings.simulate.places_log import simulate_log

pd = pytest.importorskip("pandas")
PLACES = make_towns()
MOMENT = datetime(2024, 5, 3, 8, 30)


@pytest.fixture(scope="module")
def rows() -> Any:
    frame = simulate_log(PLACES, TownEngine(PLACES), 250, k=20, random_state=0).to_rows()
    return frame[frame.groupby("search_id")["item_id"].transform("size") > 1].reset_index(drop=True)


@pytest.fixture(scope="module")
def plain(rows: Any) -> Reranker:
    features = place_features().fit(rows)
    return Reranker(features, LinearRanker().fit(features.to_ranking(rows)))


@pytest.fixture(scope="module")
def guarded(rows: Any, plain: Reranker) -> Reranker:
    data = plain.features_.to_ranking(rows)
    engine = -rows["position"].to_numpy(dtype=float)
    context = {"length": describe_searches(rows, data.offsets)["length"]}
    worse = -plain.ranker_.predict(data)  # a model that is wrong everywhere is used nowhere
    return Reranker(plain.features_, plain.ranker_, fit_guard(worse, engine, data.y, data.offsets, context))


def ask(reranker: Reranker, hits: list[Hit], text: str = "kaiser", **told: Any) -> list[Hit]:
    return reranker.reorder(Request.of_hits(text, hits, **{"time": MOMENT, **told}), hits)


def find_hits(text: str = "kaiser", k: int = 20) -> list[Hit]:
    return TownEngine(PLACES).search(text, focus=(49.0, 8.4), k=k)


def test_a_live_request_gives_the_order_of_the_batch(plain: Reranker) -> None:
    hits = find_hits()
    assert len(hits) > 3
    table = pd.DataFrame([hit.item for hit in hits]).assign(
        search_id="s", query="kaiser", time=np.datetime64(MOMENT), focus_lat=49.0, focus_lon=8.4, label=0.0,
        target="origin", platform="ios",
    )  # fmt: skip
    order = np.argsort(-plain.score(table), kind="stable")
    found = ask(plain, hits, focus=(49.0, 8.4), target="origin", platform="ios")
    assert [hit.id for hit in found] == [hits[row].id for row in order]
    assert {hit.rank for hit in found} == {hit.rank for hit in hits}  # the engine's ranks stay readable
    assert [hit.rank for hit in found] != sorted(hit.rank for hit in hits)


def test_times_with_a_zone_are_the_same_moment(plain: Reranker) -> None:
    hits = find_hits()
    berlin = MOMENT.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=2)))
    assert ask(plain, hits, time=berlin) == ask(plain, hits)
    assert ask(plain, hits, time="2024-05-03T10:30+02:00") == ask(plain, hits)
    with pytest.raises(BadInput, match="time must be a datetime or ISO 8601 text.* Got '2024'"):
        ask(plain, hits, time="2024")


def test_the_guard_keeps_the_engines_order(guarded: Reranker, plain: Reranker) -> None:
    hits = find_hits()
    assert ask(guarded, hits) == hits
    assert ask(plain, hits) != hits


def test_lists_of_one_or_none_come_back_as_they_are(plain: Reranker) -> None:
    assert ask(plain, []) == []
    assert ask(plain, find_hits(k=1)) == find_hits(k=1)


def test_an_engine_with_a_re_ranker_is_an_engine(plain: Reranker) -> None:
    engine = plain.wrap(TownEngine(PLACES))
    assert isinstance(engine, Engine)
    found = engine.search("kaiser", focus=(49.0, 8.4), k=3)
    assert len(found) == 3
    assert {hit.id for hit in engine.search("kaiser", k=40)} == {
        hit.id for hit in TownEngine(PLACES).search("kaiser", k=40)
    }


@pytest.mark.parametrize("which", ["plain", "guarded"])
def test_what_is_saved_ranks_the_same_when_loaded(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    reranker: Reranker = request.getfixturevalue(which)
    reranker.save(tmp_path / "kept", metrics={"mrr": 0.5})
    back = load_reranker(tmp_path / "kept")
    assert ask(back, find_hits()) == ask(reranker, find_hits())
    assert (back.guard_ is None) == (reranker.guard_ is None)


def test_clicks_of_the_past_are_used_live_and_kept(rows: Any, tmp_path: Path) -> None:
    known = add_past_clicks(rows, rows)
    features = place_features().fit(known)
    assert "log_past_clicks" in features.names
    loved = find_hits()[-1].id
    never = Reranker(features, LinearRanker().fit(features.to_ranking(known)))
    often = Reranker(features, never.ranker_, clicks={loved: 500})
    ranks = [[hit.id for hit in ask(each, find_hits())].index(loved) for each in (never, often)]
    assert ranks[0] != ranks[1]
    often.save(tmp_path / "kept")
    assert load_reranker(tmp_path / "kept").clicks_ == {loved: 500}


def test_a_model_that_was_exchanged_is_refused(plain: Reranker, rows: Any, tmp_path: Path) -> None:
    plain.save(tmp_path / "kept")
    other = LinearRanker(C=0.01).fit(plain.features_.to_ranking(rows))
    other.save(tmp_path / "kept" / "model")
    with pytest.raises(BadBundle):
        load_reranker(tmp_path / "kept")


def test_a_changed_features_file_is_refused(plain: Reranker, tmp_path: Path) -> None:
    plain.save(tmp_path / "kept")
    file = tmp_path / "kept" / "reranker" / "features.json"
    file.write_text(file.read_text().replace(": ", ":  ", 1))
    with pytest.raises(BadBundle, match=r"features.json"):
        load_reranker(tmp_path / "kept")


def test_a_feature_on_any_field_of_a_place_has_its_value_live(rows: Any) -> None:
    from dataclasses import replace as change

    from placings.features.number import Number
    from placings.features.spec import FeatureSet

    known = rows.assign(stars=np.arange(len(rows)) % 5 + 1.0, country="DE")
    features = FeatureSet([Number("stars", ("raw",))]).fit(known)
    reranker = Reranker(features, LinearRanker().fit(features.to_ranking(known)))
    hits = [
        change(Place.of_hit(hit), fields={"stars": float(stars), "name": "not this one"}).to_hit(
            hit.score, hit.rank
        )
        for stars, hit in zip((1, 5, 3), find_hits(), strict=False)
    ]
    assert hits[1].item["stars"] == 5.0
    assert hits[1].item["name"] == hits[1].name
    assert hits[1].item["country"] == hits[1].fields["country"]
    table = pd.DataFrame([hit.item for hit in hits]).assign(search_id="s", label=0.0)
    order = np.argsort(-reranker.score(table), kind="stable")
    found = ask(reranker, hits)
    assert [hit.id for hit in found] == [hits[row].id for row in order]
    assert {hit.fields["stars"] for hit in (found[0], found[-1])} == {1.0, 5.0}


def test_an_engine_in_front_tells_the_re_ranker_all_that_it_is_told(
    plain: Reranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    rerank = Reranker.rerank

    def listen(self: Reranker, request: Any) -> Any:
        asked.append(dict(request.context))
        return rerank(self, request)

    monkeypatch.setattr(Reranker, "rerank", listen)
    plain.wrap(TownEngine(PLACES)).search(
        "kaiser", (49.0, 8.4), 5, time=MOMENT, target="origin", platform="ios", context={"surface": "map"}
    )
    assert asked == [
        {"query": "kaiser", "time": MOMENT, "target": "origin", "platform": "ios", "focus_lat": 49.0,
         "focus_lon": 8.4, "surface": "map"}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "bad", "good"), [("target", "origin", "destination"), ("platform", "ios", "web")]
)
def test_a_guards_verdict_on_target_and_platform_counts_live(
    by: str, bad: str, good: str, plain: Reranker
) -> None:
    overall = KindVerdict("all", "", 200, 0.1, 0.05, 1.0)
    kinds = (KindVerdict(by, bad, 100, -0.2, -0.3, 0.0), KindVerdict(by, good, 100, 0.2, 0.1, 1.0))
    wrapped = Reranker(plain.features_, plain.ranker_, Guard(overall, kinds)).wrap(TownEngine(PLACES))

    def find_ranks(value: str) -> list[int]:
        found = wrapped.search("kaiser", (49.0, 8.4), time=MOMENT, **{by: value})  # type: ignore[arg-type]
        return [hit.rank for hit in found]

    engine = [hit.rank for hit in find_hits(k=40)]
    assert find_ranks(bad) == engine
    assert find_ranks(good) != engine


def test_another_digest_is_refused(plain: Reranker, tmp_path: Path) -> None:
    digest = plain.save(tmp_path / "kept")
    assert load_reranker(tmp_path / "kept", digest=digest).features_.names == plain.features_.names
    with pytest.raises(BadBundle, match="not the bundle that was pinned"):
        load_reranker(tmp_path / "kept", digest="0" * 64)


def test_a_text_with_hits_still_gives_hits_and_warns(plain: Reranker) -> None:
    told = {"focus": (49.0, 8.4), "time": MOMENT, "target": "origin", "platform": "ios"}
    with pytest.warns(DeprecationWarning, match=r"rerank\(text, hits\) goes in version 0.3"):
        old = plain.rerank("kaiser", find_hits(), **told)
    assert old == ask(plain, find_hits(), **told)
    with pytest.warns(DeprecationWarning, match=r"hit.place goes in version 0.3"):
        assert old[0].place.id == old[0].id


def test_a_sample_request_is_kept_and_asked_again_when_loaded(rows: Any, tmp_path: Path) -> None:
    import json
    import shutil

    from placings.core import write_bundle

    reranker = Reranker(features="places", ranker="ridge").fit(rows)
    reranker.save(tmp_path / "kept")
    sample = json.loads((tmp_path / "kept" / "reranker" / "sample_request.json").read_text())
    answer = load_reranker(tmp_path / "kept").rerank(sample["request"])
    np.testing.assert_allclose(answer.scores, sample["scores"], rtol=1e-9)
    bundle = tmp_path / "kept" / "reranker"
    manifest = json.loads((bundle / "manifest.json").read_text())
    files = {name: (bundle / name).read_bytes() for name in manifest["files"]}
    sample["scores"][0] += 1.0
    shutil.rmtree(bundle)
    facts = {name: manifest[name] for name in ("reranker", "model", "pool")}
    write_bundle(bundle, facts, {**files, "sample_request.json": json.dumps(sample).encode()})
    with pytest.raises(BadBundle, match="scores its sample request differently than when it was saved"):
        load_reranker(tmp_path / "kept")


def test_without_validation_data_a_fifth_of_the_sessions_is_set_aside(rows: Any) -> None:
    from placings.logs import ClickLog

    train, valid = ClickLog(rows).split(0.8, 0.2, by="session", random_state=0)
    one = Reranker(ranker="ridge").fit(rows)
    other = Reranker(ranker="ridge").fit(train, valid=valid)
    assert one.lists_ == other.lists_ < rows["search_id"].nunique()
    assert one.valid_ == pytest.approx(other.valid_)
    np.testing.assert_allclose(one.score(rows), other.score(rows), rtol=1e-9)


def test_other_rankers_may_learn_from_the_very_lists_of_a_re_ranker(rows: Any) -> None:
    cut = rows["time"].quantile(0.8)
    train, valid = rows[rows["time"] <= cut], rows[rows["time"] > cut]
    fitted = Reranker("places", "ridge", guard=False).fit(train, valid=valid)
    lists = Reranker("places", "ridge").make_lists(train, valid=valid)
    again = Reranker(lists.features, LinearRanker("ridge").fit(lists.train), None, lists.clicks)
    np.testing.assert_array_equal(again.score(valid), fitted.score(valid))
    assert lists.train.n_queries == fitted.lists_
    assert lists.clicks == fitted.clicks_
    assert lists.clicks
    assert lists.clicks_until == fitted.clicks_until_


def test_the_margin_of_the_guard_is_a_setting_and_is_saved_with_it(rows: Any, tmp_path: Path) -> None:
    default, strict = (
        Reranker(ranker="ridge").fit(rows),
        Reranker(ranker="ridge", guard_tolerance=0.0).fit(rows),
    )
    assert default.guard_ is not None
    assert strict.guard_ is not None
    assert (default.guard_.tolerance, strict.guard_.tolerance) == (0.02, 0.0)
    strict.save(tmp_path / "strict")
    loaded = load_reranker(tmp_path / "strict").guard_
    assert loaded is not None
    assert loaded.to_state() == strict.guard_.to_state()


def test_settings_are_refused_before_anything_is_read(rows: Any) -> None:
    for settings, said in (
        ({"features": 7}, "features must be 'places' or 'shop'.* or a FeatureSet. Got int"),
        ({"guard": "yes"}, "guard must be True, False or a Guard. Got 'yes'"),
        ({"guard_tolerance": -0.1}, "guard_tolerance must be a number from 0 to below 1. Got -0.1"),
        ({"ranker": 3}, "ranker must be a ranker or the name of one. Got int"),
        ({"ranker": "forest"}, "no ranker 'forest'"),
    ):
        with pytest.raises(BadInput, match=said):
            Reranker(**settings).fit(rows)  # type: ignore[arg-type]


def test_a_request_that_is_none_is_told(plain: Reranker) -> None:
    for told, said in (
        (
            {"items": [], "text": "a"},
            'a request must have "context" and "items" and nothing else. Got items, text',
        ),
        ({"context": {}}, 'a request must have "context" and "items"'),
        ({"items": "abc"}, "a request's items must be a list of dicts. Got a str"),
        ({"items": [3]}, "item 1 of a request must be a dict. Got a int"),
        ({"items": [], "context": 3}, "a request's context must be a dict. Got a int"),
        ({"items": [{}], "context": {"time": "noon"}}, "time must be a datetime or ISO 8601 text"),
    ):
        with pytest.raises(BadInput, match=said):
            plain.rerank(told)
    assert len(plain.rerank({"items": []}).order) == 0


def test_a_folder_above_or_without_a_re_ranker_is_told(plain: Reranker, tmp_path: Path) -> None:
    plain.save(tmp_path / "study" / "reranker")
    with pytest.raises(BadBundle, match=r"study: holds no re-ranker.* Did you mean .*study/reranker\?"):
        load_reranker(tmp_path / "study")
    with pytest.raises(BadBundle, match="holds no re-ranker: a folder with the folders model and reranker"):
        load_reranker(tmp_path)


def test_rows_in_any_order_get_the_scores_of_their_searches(plain: Reranker, rows: Any) -> None:
    shuffled = rows.sample(frac=1.0, random_state=0)
    for live in (False, True):
        expected = pd.Series(plain.score(rows, live=live), index=rows.index).loc[shuffled.index]
        np.testing.assert_allclose(plain.score(shuffled, live=live), expected, rtol=1e-9)
    assert expected.nunique() > 100


def test_a_log_without_times_is_of_an_unknown_time_not_of_now(rows: Any) -> None:
    features = place_features().fit(rows)
    clocked = Reranker(features, LinearRanker().fit(features.to_ranking(rows)))
    assert any(name.startswith("hour") for name in features.names)
    bare = rows.drop(columns="time")
    np.testing.assert_allclose(clocked.score(bare, live=True), clocked.score(bare), rtol=1e-9)


def test_odd_items_are_told_or_have_their_place(plain: Reranker) -> None:
    first, second = (hit.item for hit in find_hits()[:2])
    for odd in (None, float("nan")):
        found = plain.rerank({"context": {"query": "a"}, "items": [{**first, "position": odd}, second]})
        whole = plain.rerank({"context": {"query": "a"}, "items": [{**first, "position": 1}, second]})
        assert found.order.tolist() == whole.order.tolist()
    with pytest.raises(BadInput, match=r"column 'weight' must be numbers. Got \[1\] at row 0"):
        plain.rerank({"items": [{**first, "weight": [1]}, second]})


def test_logs_that_say_nothing_are_refused(plain: Reranker, rows: Any) -> None:
    for log in (rows.iloc[:0], rows[rows["position"] == 1], rows.assign(label=0.0)):
        with pytest.raises(BadInput, match="judged by its clicks. Got no list of two items or more"):
            plain.evaluate(log)
    lacking = rows.assign(position=rows["position"].astype(float).where(rows.index != 3))
    with pytest.raises(BadInput, match="learns from positions. Got 1 of"):
        Reranker(ranker="ridge").fit(lacking, valid=rows)
