"""The places study: it resumes, its tables have the thesis' rows, and no number is made of test data."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadFile, BadInput, Guess, PlacingsWarning
from placings.logs import ClickLog, find_offsets
from placings.rankers import LinearRanker
from placings.rerank import Reranker
from placings.studies.places import DEFAULT, MEMBERS, UNGUARDED, study_places, tell_people
from placings.studies.places_lines import CS, TRANSFORMS, fit_line
from placings.studies.places_models import (
    StudySettings,
    choose_settings,
    cut_parts,
    hide_location,
    trim_lists,
)
from placings.studies.places_tables import render_study

pd = pytest.importorskip("pandas")
pytest.importorskip("lightgbm")
pytest.importorskip("torch")
pytest.importorskip("rapidfuzz")

TINY: dict[str, Any] = {
    "tree_hashed": 16, "hashed": 64, "rounds": 4, "slow_rounds": 3, "trials": 1, "steps": 3, "group_steps": 2,
    "neural_steps": 10, "variants": ("relu", "groupwise"), "counted_rounds": 2, "bootstrap": 50,
    "least": 5, "depths": (3, 5, 100), "list_size": 5,
}  # fmt: skip
STEMS = ("Markt", "Haupt", "Rhein", "Wald", "Schul", "Garten", "Kirch", "Berg")
ENDS = ("platz", "straße", "weg", "allee", "bahnhof", "tor")


def make_rows(searches: int = 120, items: int = 6, seed: int = 0) -> Any:
    """A small log: the engine sorts by weight with noise, people click what they mean or the first."""
    rng = np.random.default_rng(seed)
    names = [f"{stem}{end}" for stem in STEMS for end in ENDS]
    weight = rng.lognormal(3.0, 1.0, len(names))
    rows = []
    for number in range(searches):
        size = 1 if number % 20 == 7 else items
        shown = rng.choice(len(names), size, replace=False)
        shown = shown[np.argsort(-np.log(weight[shown]) + rng.normal(0.0, 0.7, size))]
        meant = int(rng.integers(size))
        whole = rng.random() < 0.5
        text = names[shown[meant]] + (" Karlsruhe Innenstadt" if rng.random() < 0.3 else "")
        clicked = meant if rng.random() < 0.8 else 0
        clicked = -1 if number % 9 == 4 else clicked  # nobody clicked
        where = (49.0, 8.4) if number % 3 else (np.nan, np.nan)
        for place, item in enumerate(shown):
            rows.append(
                {
                    "search_id": f"s{number:04}", "session_id": f"u{number // 3}",
                    "time": pd.Timestamp("2026-03-01") + pd.Timedelta(minutes=17 * number),
                    "query": text if whole else text[:4], "focus_lat": where[0], "focus_lon": where[1],
                    "target": ("origin", "destination", None)[number % 3],
                    "platform": ("android", "ios")[number % 2], "item_id": f"p{item}", "position": place + 1,
                    "score": 10.0 - place, "name": names[item], "locality": "Karlsruhe",
                    "type": ("stop", "address")[item % 2], "lat": 49.0 + item / 100, "lon": 8.4,
                    "weight": weight[item], "label": float(place == clicked),
                    "kind": "full" if whole else "prefix", "is_target": float(place == meant),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def rows() -> Any:
    return make_rows()


@pytest.fixture(scope="module")
def done(rows: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("study") / "out"
    return study_places(rows, out=out, settings=StudySettings(**TINY)), out


def test_sessions_are_never_split_and_lists_of_one_item_are_left_out(rows: Any) -> None:
    parts = cut_parts(rows, StudySettings(**TINY))
    sessions = [set(part["session_id"]) for part in (parts.train, parts.valid, parts.test)]
    assert len(set.union(*sessions)) == sum(map(len, sessions))
    assert not set(parts.unclicked["session_id"]) & (sessions[1] | sessions[2])
    for part in (parts.train, parts.valid, parts.test):
        assert np.diff(find_offsets(part)).min() >= 2
    assert parts.counts["one_item_searches"] == 6  # 7, 27, … 107 of 120
    assert parts.counts["sessions"] == 40
    assert (parts.train.groupby("search_id")["label"].max() > 0).all()
    assert not parts.unclicked["label"].any()


def test_a_split_by_time_holds_out_the_last_sessions(rows: Any) -> None:
    parts = cut_parts(rows, StudySettings(**TINY, split="time"))
    assert parts.train["time"].max() < parts.valid["time"].min() < parts.test["time"].min()
    assert StudySettings().split == "time"
    with pytest.raises(BadInput, match="no split 'user'"):
        StudySettings(split="user")


def test_the_order_of_the_rows_given_changes_nothing(rows: Any) -> None:
    shuffled = rows.sample(frac=1.0, random_state=1)
    one, two = cut_parts(rows, StudySettings(**TINY)), cut_parts(shuffled, StudySettings(**TINY))
    assert one.digest == two.digest
    pd.testing.assert_frame_equal(one.test, two.test)
    assert cut_parts(rows.assign(score=1.0), StudySettings(**TINY)).digest != one.digest


def test_trimmed_lists_keep_every_click(rows: Any) -> None:
    parts = cut_parts(rows, StudySettings(**TINY))
    short = trim_lists(parts.train, 3, seed=0)
    assert np.diff(find_offsets(short)).max() == 3
    assert short["label"].sum() == parts.train["label"].sum()
    assert (short.groupby("search_id")["position"].apply(lambda each: each.is_monotonic_increasing)).all()


def test_every_key_that_the_page_draws_is_there(done: tuple[dict[str, Any], Path]) -> None:
    result, _ = done
    for key in ("simulated", "settings", "models", "lines", "ranks", "tuned", "variants", "importances",
                "types", "curves", "no_location", "bands", "lengths_by_rank", "slices", "depth", "oracle",
                "left_to_engine", "unsuccessful", "why"):  # fmt: skip
        assert key in result, key
    names = [row["name"] for row in result["models"]]
    assert names == ["engine", "RankSVM", "XGBoost", "LightGBM", "CatBoost", "neural linear", "neural deep",
                     "groupwise", result["lines"]["best"], UNGUARDED, DEFAULT]  # fmt: skip
    assert {row["model"] for row in result["tuned"]} == {"XGBoost", "LightGBM", "CatBoost"}
    assert [row["name"] for row in result["variants"]] == [
        row["name"] for row in sorted(result["variants"], key=lambda row: -row["mrr"])
    ]
    assert len(result["variants"]) == 4  # linear, deep, relu, groupwise
    assert result["simulated"] is True
    assert {row["slice"] for row in result["slices"]} >= {"length", "location", "kind", "target", "platform"}
    gaps = [row["difference"] for row in result["slices"]]
    assert gaps == sorted(gaps)
    assert len(result["importances"]["all"]) == 20
    assert all(
        ":" not in name or name.split(":")[0] in ("type", "target")
        for name, _ in result["importances"]["plain"]
    )


def test_every_line_stands_beside_the_members_of_the_default_and_validation_chose_the_best(
    done: tuple[dict[str, Any], Path],
) -> None:
    told = done[0]["lines"]
    rows = {row["name"]: row for row in told["models"]}
    lines = [f"ridge over {name}" for name in TRANSFORMS]
    others = [*MEMBERS.values(), UNGUARDED, DEFAULT]
    assert list(rows) == ["engine", *lines, *others]
    assert {rows[name]["C"] for name in lines} <= set(CS)
    assert {rows[name]["C"] for name in others} == {None}
    assert told["best"] == max(lines, key=lambda name: rows[name]["valid"])
    assert {rows[name]["lists"] for name in (*lines, *others)} == {rows[DEFAULT]["lists"]}
    assert rows[DEFAULT]["mrr_true"] == done[0]["models"][-1]["mrr_true"]
    beyond = {each["name"]: each for each in told["beyond"]}
    assert list(beyond) == others
    gap = rows[DEFAULT]["mrr_true"] - rows[told["best"]]["mrr_true"]
    assert beyond[DEFAULT]["difference_true"] == pytest.approx(gap)
    text = render_study(done[0])
    assert f"Beyond {told['best']}, the best line on validation, on the true target: LightGBM of" in text
    assert f"{told['best']}: the line that was best on validation" in text


def test_the_c_of_a_line_is_the_one_that_orders_the_validation_lists_best(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = cut_parts(rows, StudySettings(**TINY))
    lists = Reranker("places", "ridge").make_lists(ClickLog(parts.train_log), valid=ClickLog(parts.valid_log))
    judged: list[Any] = []

    def judge(line: LinearRanker, data: Any) -> float:
        judged.append(data)
        return -abs(np.log10(line.C) - 1.5)  # 10 and 100 are equally good

    monkeypatch.setattr("placings.studies.places_lines.measure_mrr", judge)
    assert fit_line("cdf", lists).C == 10.0
    assert all(data is lists.valid for data in judged)


def test_the_engines_numbers_are_those_of_its_positions(done: tuple[dict[str, Any], Path], rows: Any) -> None:
    result, _ = done
    test = cut_parts(rows, StudySettings(**TINY)).test
    clicked = test[test["label"] > 0]
    engine = result["models"][0]
    assert engine["mrr"] == pytest.approx((1.0 / clicked["position"]).mean())
    meant = test[test["is_target"] > 0]
    assert engine["mrr_true"] == pytest.approx((1.0 / meant["position"]).sum() / test["search_id"].nunique())
    assert result["ranks"]["engine"] == clicked.sort_values(["time", "search_id"])["position"].tolist()
    assert result["no_location"]["engine"]["mrr"] == pytest.approx(engine["mrr"])


def test_depths_end_where_the_log_does_and_the_ceiling_is_the_share_of_lists_with_the_target(
    done: tuple[dict[str, Any], Path], rows: Any
) -> None:
    result, _ = done
    assert [row["k"] for row in result["depth"]] == [3, 5, 6]  # six were logged
    test = cut_parts(rows, StudySettings(**TINY)).test
    top = test[test["position"] <= 3].groupby("search_id")["is_target"].max().mean()
    assert result["depth"][0]["oracle"] == pytest.approx(top)
    assert result["oracle"] == pytest.approx(1.0)
    assert all(row["model"] <= row["oracle"] for row in result["depth"])


def test_a_second_run_trains_nothing_and_says_the_same(
    done: tuple[dict[str, Any], Path], rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, out = done
    from placings.rankers.estimator import Ranker

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a model was trained again")

    monkeypatch.setattr(Ranker, "fit", refuse)
    again = study_places(rows, out=out, settings=StudySettings(**TINY))
    assert {**again, "seconds": 0} == {**result, "seconds": 0}


def test_a_killed_run_goes_on_from_its_cells(
    done: tuple[dict[str, Any], Path], rows: Any, tmp_path: Path
) -> None:
    import shutil

    result, out = done
    shutil.copytree(out / "cells", tmp_path / "cells")
    gone = sorted((tmp_path / "cells").glob("RankSVM*")) + sorted((tmp_path / "cells").glob("unclicked*"))
    for path in gone:
        path.unlink()
    damaged = next((tmp_path / "cells").glob("importances*"))
    damaged.write_text("{")
    with pytest.warns(PlacingsWarning, match="made anew"):
        again = study_places(rows, out=tmp_path, settings=StudySettings(**TINY))
    timed = {"seconds": 0}
    assert [{**row, **timed} for row in again["models"]] == [{**row, **timed} for row in result["models"]]
    assert again["unsuccessful"] == result["unsuccessful"]
    assert again["importances"] == result["importances"]


def test_the_files_hold_the_result_the_tables_and_a_re_ranker_that_loads(
    done: tuple[dict[str, Any], Path], rows: Any
) -> None:
    result, out = done
    assert {**json.loads((out / "study.json").read_text()), "seconds": 0} == {**result, "seconds": 0}
    text = (out / "study.md").read_text()
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert len(titles) >= 12
    assert all("SIMULATED" in title for title in titles)
    from placings.rerank.reranker import load_reranker

    reranker = load_reranker(out / "reranker", digest=result["served"]["digest"])
    test = cut_parts(rows, StudySettings(**TINY)).test.drop(columns="past_clicks")
    ranks = rank_clicks(reranker.score(test), test)
    assert ranks == result["ranks"][DEFAULT]
    assert rank_clicks(reranker.score(hide_location(test)), test) == result["no_location"][DEFAULT]["ranks"]


def test_the_studys_figure_is_that_of_the_saved_re_ranker_asked_hit_by_hit(
    done: tuple[dict[str, Any], Path], rows: Any
) -> None:
    from placings.places.place import Place
    from placings.rerank import Request
    from placings.rerank.reranker import load_reranker

    result, out = done
    reranker = load_reranker(out / "reranker")
    ranks = []
    for _, search in cut_parts(rows, StudySettings(**TINY)).test.groupby("search_id", sort=False):
        first = search.iloc[0]
        own = ("name", "locality", "type", "lat", "lon", "weight")
        hits = [
            Place(id=row.item_id, **{name: getattr(row, name) for name in own}).to_hit(
                row.score, row.position
            )
            for row in search.itertuples()
        ]
        request = Request.of_hits(
            first["query"], hits, time=first["time"].to_pydatetime(), target=first["target"],
            platform=first["platform"],
            focus=None if np.isnan(first["focus_lat"]) else (first["focus_lat"], first["focus_lon"]),
        )  # fmt: skip
        found = reranker.reorder(request, hits)
        clicked = set(search.loc[search["label"] > 0, "item_id"])
        ranks += [place for place, hit in enumerate(found, 1) if hit.id in clicked][:1]
    assert ranks == result["ranks"][DEFAULT]
    assert result["served"] == {**result["served"], "unlike_batch": 0, "searches": result["counts"]["test"]}


def test_past_clicks_of_the_test_stand_as_training_left_them(
    done: tuple[dict[str, Any], Path], rows: Any
) -> None:
    from placings.rerank.reranker import load_reranker

    _, out = done
    parts = cut_parts(rows, StudySettings(**TINY))
    learned = pd.concat([parts.train_log, parts.valid_log])
    assert (learned.groupby("search_id")["item_id"].size() == 1).any()
    counted = learned.loc[learned["label"] > 0, "item_id"].value_counts()
    assert load_reranker(out / "reranker").clicks == counted.to_dict()  # lists of one item too
    expected = parts.test["item_id"].map(counted).fillna(0.0)
    np.testing.assert_array_equal(parts.test["past_clicks"], expected)


def test_with_sessions_drawn_at_random_past_clicks_are_counted_as_of_each_search(rows: Any) -> None:
    parts = cut_parts(rows, StudySettings(**TINY, split="session"))
    learned = pd.concat([parts.train_log, parts.valid_log])
    wins = learned[learned["label"] > 0]
    for row in parts.test.itertuples():
        before = (wins["item_id"] == row.item_id) & (wins["time"] < row.time)
        assert row.past_clicks == before.sum()


@pytest.mark.parametrize("split", ["time", "session"])
def test_test_searches_are_told_apart_by_whether_the_person_had_clicked_before(rows: Any, split: str) -> None:
    session = pd.factorize(rows["session_id"])[0]
    parts = cut_parts(rows.assign(user_id=session % 60), StudySettings(**TINY, split=split))
    learned = pd.concat([parts.train_log, parts.valid_log])
    wins = learned[learned["label"] > 0]
    begins = parts.test.groupby("session_id")["time"].transform("min")
    expected = [
        "seen before" if ((wins["user_id"] == row.user_id) & (wins["time"] < begin)).any() else "never seen"
        for row, begin in zip(parts.test.itertuples(), begins, strict=True)
    ]
    first = find_offsets(parts.test)[:-1]
    assert tell_people(parts)["person"].tolist() == np.array(expected)[first].tolist()
    nameless = replace(parts, test=parts.test.drop(columns="user_id"))
    assert tell_people(nameless) == {}


def test_a_re_ranker_that_was_exchanged_or_removed_is_trained_again(
    done: tuple[dict[str, Any], Path], rows: Any, tmp_path: Path
) -> None:
    import shutil

    from placings.rerank.reranker import load_reranker

    result, out = done
    shutil.copytree(out / "cells", tmp_path / "cells")
    again = study_places(rows, out=tmp_path, settings=StudySettings(**TINY))
    assert again["ranks"][DEFAULT] == result["ranks"][DEFAULT]
    load_reranker(tmp_path / "reranker", digest=again["served"]["digest"])


@pytest.mark.slow
def test_a_log_with_carts_and_purchases_goes_through_the_study(rows: Any) -> None:
    grades = np.where(np.arange(len(rows)) % 3 == 0, 3.0, 1.0)
    graded = rows.assign(label=rows["label"] * grades)
    assert set(graded["label"]) == {0.0, 1.0, 3.0}
    result = study_places(graded, settings=StudySettings(**TINY | {"trials": 2}))
    plain = study_places(rows, settings=StudySettings(**TINY | {"trials": 2}))
    assert result["models"][0]["mrr"] == pytest.approx(plain["models"][0]["mrr"])
    assert [row["name"] for row in result["models"]] == [row["name"] for row in plain["models"]]


def rank_clicks(scores: Any, test: Any) -> list[int]:
    ranks = []
    offsets = find_offsets(test)
    for start, stop in pairwise(offsets):
        order = np.argsort(-scores[start:stop], kind="stable")
        clicked = np.flatnonzero(test["label"].to_numpy()[start:stop][order] > 0)
        ranks += [int(clicked[0]) + 1] if len(clicked) else []
    return ranks


def test_text_and_markdown_name_the_worst_slice_and_the_share_left_to_the_engine(
    done: tuple[dict[str, Any], Path],
) -> None:
    result, _ = done
    for form in ("text", "markdown"):
        text = render_study(result, form)
        worst = result["slices"][0]
        assert f"The worst on the true target: {worst['slice']} {worst['value']}" in text
        assert "left in the engine's order" in text
        assert "The best order of the same lists would reach" in text
        assert "The order of the batch is the same." in text
    with pytest.raises(BadInput, match="must be 'text' or 'markdown'"):
        render_study(result, "html")
    assert "SIMULATED" not in render_study({**result, "simulated": False})
    assert render_study({"models": []}) == "Learning to rank places"


def test_lists_of_zeros_teach_pairs_nothing(done: tuple[dict[str, Any], Path]) -> None:
    result, _ = done
    table = {row["training"]: row for row in result["unsuccessful"]["table"]}
    assert result["unsuccessful"]["searches"] > 0
    first, second = table["clicked searches only"], table["and the others as lists of zeros"]
    assert second["searches"] > first["searches"]


def test_a_log_without_truth_unclicked_searches_or_sessions_is_judged_on_clicks(rows: Any) -> None:
    own = rows[rows.groupby("search_id")["label"].transform("max") > 0]
    own = own.drop(columns=["is_target", "kind", "session_id", "type"])
    with pytest.warns(Guess, match="no session_id: single searches"):
        result = study_places(own, settings=StudySettings(**TINY))
    assert result["simulated"] is False
    assert result["models"][0]["mrr_true"] is None
    assert result["slices"][0]["measure"] == "clicks"
    assert result["types"] == {}
    assert result["unsuccessful"]["searches"] == 0
    assert "SIMULATED" not in render_study(result)


def test_a_table_that_is_no_rows_table_is_refused(tmp_path: Path, rows: Any) -> None:
    with pytest.raises(BadInput, match="lacks item_id, label"):
        study_places(rows.drop(columns=["item_id", "label"]), settings=StudySettings(**TINY))
    with pytest.raises(BadFile, match="no such file"):
        study_places(tmp_path / "none.parquet")
    (tmp_path / "rows.parquet").write_text("no")
    with pytest.raises(BadFile, match="no parquet file"):
        study_places(tmp_path / "rows.parquet")
    with pytest.raises(BadInput, match="five searches with a click"):
        study_places(make_rows(18), settings=StudySettings(**TINY))  # six sessions: 4, 1 and 1
    with pytest.raises(BadInput, match="part 3 of .* would be empty"):
        study_places(make_rows(6), settings=StudySettings(**TINY))


def test_settings_grow_with_the_log_and_shrink_when_it_must_be_quick() -> None:
    quick, usual, large = choose_settings(1500, quick=True), choose_settings(5000), choose_settings(20_000)
    assert quick.steps < usual.steps < large.steps
    assert quick.rounds < usual.rounds < large.rounds
    assert choose_settings(5000, seed=3).seed == 3
    with pytest.raises(BadInput, match="add up to 1"):
        StudySettings(shares=(0.5, 0.4, 0.2))
