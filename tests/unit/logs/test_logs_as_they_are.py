"""Logs as people have them: epoch times, plain ids, other names, one flat table, a cut last line."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from placings.core import BadFile, BadInput, PlacingsWarning, UnknownName
from placings.logs import ClickLog, import_flat, join_logs
from placings.logs.epochs import choose_unit, tell_unit

START = 1_714_550_400  # 2024-05-01 08:00:00 UTC
SEARCH = {"search_id": "s1", "time": "2024-05-01T08:00:00Z", "query": "lamp", "results": ["a", "b"]}
CLICK = {"search_id": "s1", "item_id": "b", "time": "2024-05-01T08:00:09Z", "action": "click"}
FLAT = pd.DataFrame({
    "sid": [1, 1, 2, 2],
    "sku": ["a", "b", "a", "b"],
    "rank": [1, 2, 1, 2],
    "clicked": [True, False, None, True],
    "ts": [START * 1000, START * 1000, START * 1000 + 1500, START * 1000 + 1500],
    "price": [1.5, 2.5, 1.5, 2.5],
})  # fmt: skip
NAMES = {"search_id": "sid", "item_id": "sku", "position": "rank", "time": "ts"}


def write(path: Path, *lines: Any, end: str = "") -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + end, encoding="utf-8")
    return path


# -- times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit"),
    [(START, "seconds"), (START + 0.0, "seconds"), (START * 1000, "milliseconds"), (str(START), "seconds"),
     (str(START * 1000), "milliseconds"), (START * 1_000_000, "microseconds")],
)  # fmt: skip
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_epoch_times_are_told_by_their_size_and_said(
    value: Any, unit: str, form: str, tmp_path: Path
) -> None:
    search = {**SEARCH, "time": value}
    if form == "jsonl":
        path = write(tmp_path / "s.jsonl", search)
    else:
        path = tmp_path / "s.parquet"
        pd.DataFrame([search]).to_parquet(path)
    with join_logs(path, [{**CLICK, "time": datetime(2024, 5, 1, 8, 0, 9)}]) as log:
        assert log.rows["time"].tolist() == [datetime(2024, 5, 1, 8)] * 2
        assert log.report is not None
        number = int(float(value))
        assert log.report.times == {"searches": f"{unit} since 1970 ({number} is 2024-05-01 08:00:00 UTC)"}
        assert log.report.times["searches"] in log.report.table()


def test_each_file_has_its_own_unit_and_fractions_of_a_second_stay(tmp_path: Path) -> None:
    searches = write(tmp_path / "s.jsonl", {**SEARCH, "time": START * 1000 + 250})
    actions = write(tmp_path / "a.jsonl", {**CLICK, "time": START + 9.5})
    with join_logs(searches, actions) as log:
        assert log.rows["time"].iloc[0] == pd.Timestamp("2024-05-01 08:00:00.250")
        assert log.report is not None
        assert [text.split()[0] for text in log.report.times.values()] == ["milliseconds", "seconds"]
        assert log.report.actions["used"] == 1


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([12345], "column 'time' must be times. Got 12345, which is no time of 1973 to 2286"),
        ([START * 20], "neither as seconds nor as milliseconds since 1970. Say which they are with time"),
        ([START, START * 1000], "holds two units: 1714550400 looks like seconds, 1714550400000 like milli"),
        ([START, 0], "Got 0, which is no time"),
    ],
)  # fmt: skip
def test_a_number_that_may_be_several_times_is_refused(
    times: list[int], message: str, tmp_path: Path
) -> None:
    lines = [{**SEARCH, "search_id": f"s{n}", "time": time} for n, time in enumerate(times)]
    with pytest.raises(BadFile, match=message):
        join_logs(write(tmp_path / "s.jsonl", *lines), [CLICK])
    with pytest.raises(BadInput, match=message):
        ClickLog(pd.DataFrame({"search_id": "s", "item_id": "a", "position": 1, "label": 0, "time": times}))


def test_the_unit_can_be_told(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", {**SEARCH, "time": 60})
    actions = [{**CLICK, "time": datetime(1970, 1, 1, 0, 1, 5)}]
    with join_logs(path, actions, time_unit="seconds") as log:
        assert log.rows["time"].iloc[0] == pd.Timestamp("1970-01-01 00:01:00")
    with pytest.raises(UnknownName, match="no unit of time 'second'; did you mean 'seconds'"):
        join_logs(path, actions, time_unit="second")


def test_no_number_is_of_two_units_and_borders_are_between_them() -> None:
    numbers = np.geomspace(1, 1e19, 4000)
    units = [tell_unit(number) for number in numbers]
    known = [unit for unit in dict.fromkeys(units) if unit is not None]
    assert known == ["seconds", "milliseconds", "microseconds", "nanoseconds"]
    changes = [(a, b) for a, b in pairwise(units) if a != b]
    assert all(None in pair for pair in changes)  # a gap lies between any two
    assert choose_unit(1e8, 9.99e9, None) == "seconds"


def test_iso_text_in_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    texts = ["2024-05-01T10:00:00+02:00", "2024-05-01T08:00:00"]
    pd.DataFrame([{**SEARCH, "search_id": f"s{n}", "time": t} for n, t in enumerate(texts)]).to_parquet(path)
    with join_logs(path, [CLICK], unsuccessful="negatives") as log:
        assert set(log.rows["time"]) == {pd.Timestamp("2024-05-01 08:00:00")}


# -- lists of ids -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["jsonl", "parquet", "memory"])
@pytest.mark.parametrize("ids", [["b", "a", "c"], [20, 10, 30]])
def test_a_list_of_ids_is_shown_in_its_order(form: str, ids: list[Any], tmp_path: Path) -> None:
    search: dict[str, Any] = {**SEARCH, "time": datetime(2024, 5, 1, 8), "results": ids}
    shown: Any = [search]
    if form == "parquet":
        shown = tmp_path / "s.parquet"
        pd.DataFrame([search]).to_parquet(shown)
    elif form == "jsonl":
        shown = write(tmp_path / "s.jsonl", {**search, "time": SEARCH["time"]}, {**search, "search_id": "s2",
                      "time": SEARCH["time"], "results": []})  # fmt: skip
    with join_logs(shown, [{**CLICK, "item_id": str(ids[2]), "time": datetime(2024, 5, 1, 8, 1)}]) as log:
        rows = log.rows
        assert rows["item_id"].tolist() == [str(each) for each in ids]
        assert (rows["position"].tolist(), rows["label"].tolist()) == ([1, 2, 3], [0.0, 0.0, 1.0])
        assert log.report is not None
        assert log.report.adds_up
        assert log.report.notes["missing_positions"] == 0


def test_an_id_that_is_twice_in_a_list_of_ids_stays_at_its_higher_place() -> None:
    search = {**SEARCH, "time": datetime(2024, 5, 1, 8), "results": ["a", "b", "a", ""]}
    with join_logs([search], [{**CLICK, "time": datetime(2024, 5, 1, 8, 1)}]) as log:
        assert log.rows[["item_id", "position"]].to_numpy().tolist() == [["a", 1], ["b", 2]]
        assert log.report is not None
        assert log.report.adds_up
        assert (log.report.items["double"], log.report.items["no_id"]) == (1, 1)


# -- other names --------------------------------------------------------------------------------------------


def test_columns_of_other_names_are_mapped_in_files_lists_and_objects(tmp_path: Path) -> None:
    line = {"id": "s1", "when": {"ts": START}, "text": "lamp",
            "products": [{"id": "a", "meta": {"rank": 2}}, {"id": "b", "meta": {"rank": 1}}]}  # fmt: skip
    searches = write(tmp_path / "s.jsonl", line)
    actions = write(tmp_path / "a.jsonl", {"id": "s1", "sku": "a", "at": START + 5, "what": "click"})
    columns = {
        "search_id": "id", "searches.time": "when.ts", "actions.time": "at", "query": "text",
        "results": "products", "searches.item_id": "id", "position": "meta.rank", "actions.item_id": "sku",
        "action": "what",
    }  # fmt: skip
    with join_logs(searches, actions, columns=columns) as log:
        shown = log.rows[["search_id", "query", "item_id", "position", "label"]]
        assert shown.to_numpy().tolist() == [["s1", "lamp", "b", 1, 0.0], ["s1", "lamp", "a", 2, 1.0]]
        assert log.report is not None
        assert log.report.adds_up


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"serch_id": "sid"}, "no column of a log 'serch_id'; did you mean 'search_id'"),
        ({"search_id": "search_idd"}, "or the actions 'search_idd'; did you mean 'search_id'"),
        ({"clicks.time": "at"}, "no column of a log 'clicks.time'"),
    ],
)
def test_a_name_that_nobody_has_is_answered_with_the_nearest(columns: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        join_logs([SEARCH], [CLICK], columns=columns)


def test_a_missing_column_is_told_with_how_to_name_it() -> None:
    with pytest.raises(BadFile, match=r"has no column 'search_id'.* say so: columns=\{'search_id': …\}"):
        join_logs(
            [{"sid": 1, **{name: value for name, value in SEARCH.items() if name != "search_id"}}], [CLICK]
        )


def test_a_mapped_column_wins_over_one_that_has_its_name() -> None:
    rows = {"search_id": ["x", "x"], "sid": ["s", "t"], "item_id": "a", "position": 1, "label": 0}
    assert ClickLog(pd.DataFrame(rows), columns={"search_id": "sid"}).rows["search_id"].tolist() == ["s", "t"]


# -- one flat table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_a_flat_table_with_clicks_is_a_click_log(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"flat.{form}"
    if form == "csv":
        FLAT.to_csv(path, index=False)
    elif form == "parquet":
        FLAT.to_parquet(path)
    else:
        FLAT.to_json(path, orient="records", lines=True)
    with ClickLog.read(path, columns=NAMES) as log:
        rows = log.rows
    assert rows["label"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert "clicked" not in rows
    assert rows["time"].iloc[2] == pd.Timestamp("2024-05-01 08:00:01.500")
    imported = import_flat(path, columns=NAMES)
    assert imported.rows["label"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert imported.rows["price"].tolist() == [1.5, 2.5, 1.5, 2.5]
    assert imported.report.to_dict() == {
        "rows": 4, "used": 4, "searches": 2, "rows with a click": 2, "not_used": {}
    }  # fmt: skip
    assert ClickLog(FLAT, columns=NAMES).rows["label"].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_every_row_of_a_flat_table_has_one_fate(tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    path.write_text("search_id,item_id,clicked\n007,a,0\n007,b,1\n007,a,1\n,c,0\n8,,1\n8,d,\n")
    imported = import_flat(path)
    report = imported.report.to_dict()
    assert report["rows"] == 6 == report["used"] + sum(each["count"] for each in report["not_used"].values())
    assert report["not_used"] == {
        "a row without search_id": {"count": 1, "first": f"{path}, row 4"},
        "a row without item_id": {"count": 1, "first": f"{path}, row 5"},
        "an item that stands higher in the same search": {"count": 1, "first": f"{path}, row 3"},
    }
    shown = imported.rows[["search_id", "item_id", "position", "label"]].to_numpy().tolist()
    assert shown == [["007", "a", 1, 1.0], ["007", "b", 2, 1.0], ["8", "d", 1, 0.0]]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("sid,item_id,clicked", "no column of .*flat.csv 'search_id'; name yours: --map search_id="),
        ("search_id,item_id,price", "has neither a column 'clicked' nor 'label'"),
    ],
)
def test_a_flat_table_without_a_needed_column_is_refused(header: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    path.write_text(f"{header}\n1,a,1\n")
    with pytest.raises(ValueError, match=message):
        import_flat(path)


# -- a cut last line ------------------------------------------------------------------------------

CUT = '{"search_id": "s9", "que'


def test_a_cut_last_line_is_counted_and_passed_over(tmp_path: Path) -> None:
    searches = write(tmp_path / "s.jsonl", SEARCH, end=CUT)
    actions = write(tmp_path / "a.jsonl", CLICK, end='{"search_id": "s1", "item_id": "ü'[:-1] + "\n")
    with join_logs(searches, actions) as log:
        report = log.report
        assert report is not None
        assert report.adds_up
        assert (report.read["searches"], report.searches["used"], report.searches["cut"]) == (2, 1, 1)
        assert (report.read["actions"], report.actions["used"], report.actions["cut"]) == (2, 1, 1)
        assert report.cut == (f"{searches}:2", f"{actions}:2")
        assert len(log.rows) == 2
    with pytest.raises(BadFile, match="s.jsonl:2: is cut: the last line ends before its object does"):
        join_logs(searches, actions, strict=True)


def test_a_cut_line_elsewhere_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{json.dumps(SEARCH)}\n{CUT}\n{json.dumps(SEARCH)}\n")
    with pytest.raises(BadFile, match="s.jsonl:2: is not JSON"):
        join_logs(path, [CLICK])


def test_a_last_line_that_is_whole_but_wrong_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", SEARCH, end="{nonsense}\n")
    with pytest.raises(BadFile, match="s.jsonl:2: is not JSON"):
        join_logs(path, [CLICK])


def test_a_file_of_nothing_but_a_cut_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(CUT)
    with pytest.raises(BadFile, match="is empty but a line that is cut"):
        join_logs(tmp_path / "s.jsonl", [CLICK])


def test_a_click_log_warns_of_a_cut_line(tmp_path: Path) -> None:
    row = {"search_id": "s", "item_id": "a", "position": 1, "label": 1.0}
    path = write(tmp_path / "rows.jsonl", row, end='{"search_id": "t"')
    with pytest.warns(PlacingsWarning, match="rows.jsonl:2 ends early"), ClickLog.read(path) as log:
        assert len(log.rows) == 1
    with pytest.raises(BadFile, match="rows.jsonl:2: is cut"):
        ClickLog.read(path, strict=True)


# -- a catalogue ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["jsonl", "csv", "memory"])
def test_a_catalogue_without_times_holds_for_every_search(form: str, tmp_path: Path) -> None:
    items: Any = [{"item_id": "a", "price": 3.0}, {"item_id": "b", "price": 2.0}]
    given: Any = pd.DataFrame(items)
    if form == "jsonl":
        given = write(tmp_path / "items.jsonl", *items, {"item_id": "b", "price": 2.5}, end='{"item_id"')
    elif form == "csv":
        given.to_csv(tmp_path / "items.csv", index=False)
        given = tmp_path / "items.csv"
    search = {**SEARCH, "time": datetime(2024, 5, 1, 8), "results": ["a", "b", "c"]}
    with join_logs([search], [{**CLICK, "time": datetime(2024, 5, 1, 8, 1)}], snapshots=given) as log:
        late = 2.5 if form == "jsonl" else 2.0  # of two rows the last counts
        assert log.rows["price"].fillna(-1).tolist() == [3.0, late, -1]
        report = log.report
        assert report is not None
        assert report.adds_up
        assert report.times["snapshots"] == "none, so they hold for every search, also for earlier ones"
        assert report.notes["without_snapshot"] == 1
        wanted = {"used": 2, "no_id": 0, "no_time": 0, "replaced": 0, "cut": 0}
        assert report.snapshots == (wanted | {"replaced": 1, "cut": 1} if form == "jsonl" else wanted)
        assert report.to_dict()["snapshots"] == dict(report.snapshots)
