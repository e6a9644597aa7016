"""The schema of the logs: what is accepted, and what the messages say of what is not."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from placings.core.errors import BadFile, BadInput, EmptyFile
from placings.logs.joins import join_logs
from placings.logs.schema import ACTION as COLUMNS
from placings.logs.schema import check_actions, check_searches, open_log, parse_seconds, take_columns

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ibis")

TIME = datetime(2024, 5, 1, 8)
SHOWN = [{"item_id": "a", "position": 1}]
LINE = {"search_id": "s", "time": "2024-05-01T08:00:00Z", "query": "x", "results": SHOWN}
ACTION = {"search_id": "s", "item_id": "a", "time": "2024-05-01T08:00:03Z", "action": "click"}


def write(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_the_layout_tells_what_a_log_has_and_lacks() -> None:
    nested = check_searches(
        [{**LINE, "time": TIME, "country": "de", "results": [{**SHOWN[0], "price": 1.0}]}]
    )
    assert (nested.nested, nested.fields, nested.extras) == (True, ("price",), ("country",))
    assert nested.missing == (
        "session_id",
        "focus_lat",
        "focus_lon",
        "target",
        "platform",
        "surface",
        "score",
    )
    flat = check_searches({"search_id": [1], "time": [TIME], "query": ["x"], "item_id": [7], "price": [1.0]})
    assert (flat.nested, flat.fields, flat.extras) == (False, ("price",), ())
    assert check_actions([{**ACTION, "time": TIME, "dwell": 1.5}]) == ("dwell",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"search_id": None},
            "the searches: has no column 'search_id', which tells searches apart. It has: ",
        ),
        ({"time": None}, "has no column 'time', when the search was made"),
        ({"results": None}, "has neither a column 'results' .the list shown. nor 'item_id'"),
        (
            {"time": "yesterday"},
            "column 'time' must be timestamps. Got string, such as 'yesterday' in row 1. Write ",
        ),
        ({"query": 7}, "column 'query' must be text. Got int64, such as 7 in row 1"),
        ({"search_id": 1.5}, "column 'search_id' must be text or whole numbers. Got float64, such as 1.5"),
        ({"focus_lat": "48"}, "column 'focus_lat' must be numbers. Got string.* pandas.to_numeric"),
        ({"focus_lat": True}, "column 'focus_lat' must be numbers. Got boolean"),
        (
            {"results": [1.5]},
            "column 'results' must be a list of objects such as {item_id, position, score}, or of ids",
        ),
        ({"results": [{"position": 1}]}, "results have no field 'item_id'. They have: position"),
        (
            {"results": [{"item_id": "a", "position": "1"}]},
            "field 'position' of results must be numbers. Got string",
        ),
        ({"results": [{"item_id": "a", "time": 1}]}, "results have a field 'time', which the rows need"),
        ({"results": [{"item_id": "a", "zone": "x"}], "zone": "y"}, "column 'zone' is there twice"),
        ({"label": 1.0}, "column 'label' is one that the join makes. Rename or drop it"),
    ],
)
def test_what_cannot_be_joined_is_named_with_column_row_and_remedy(
    change: dict[str, Any], message: str
) -> None:
    search = {**LINE, "time": TIME, **change}
    search = {name: value for name, value in search.items() if value is not None}
    with pytest.raises(BadFile, match=message):
        check_searches([search])


def test_actions_are_checked_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame([{"search_id": "s", "item_id": "a", "time": TIME}]).to_parquet(path)
    with pytest.raises(BadFile, match=r"a.parquet: has no column 'action', such as click, cart or purchase"):
        check_actions(path)
    with pytest.raises(BadFile, match="the actions: column 'action' must be text. Got int64"):
        check_actions([{**ACTION, "time": TIME, "action": 3}])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"search_id": "t", ', "s.jsonl:4: is not JSON: .* Write one object per line"),
        ("[1, 2]", "s.jsonl:4: must be an object in braces. Got list"),
        ({**LINE, "time": "soon"}, "s.jsonl:4: 'time' must be ISO text in UTC.* Got 'soon'. Mend it, or"),
        ({**LINE, "time": 1714550400}, "s.jsonl:4: 'time' must be ISO text .* Got 1714550400"),
        ({**LINE, "query": 7}, "s.jsonl:4: 'query' must be text. Got 7"),
        ({**LINE, "focus_lat": "48"}, "s.jsonl:4: 'focus_lat' must be a number. Got \"48\""),
        ({**LINE, "search_id": 7}, "s.jsonl:4: 'search_id' must be text, as in the lines before. Got 7"),
        ({**LINE, "search_id": 1.0}, "s.jsonl:4: 'search_id' must be text or a whole number .* Got 1.0"),
        ({**LINE, "search_id": 2**70}, "s.jsonl:4: 'search_id' must be .* of 64 bits. Got 11805916207174"),
        ({**LINE, "results": {"item_id": "a"}}, "s.jsonl:4: 'results' must be a list of objects"),
        ({**LINE, "results": ["a"]}, "s.jsonl:4: 'results' must hold objects in every line, or ids in every"),
        ({**LINE, "results": [{"item_id": "a", "position": "1"}]}, "s.jsonl:4: 'results.position' must be a"),
        ({**LINE, "results": [{"item_id": "a", "lat": "x"}]}, "s.jsonl:4: 'results.lat' must be a number"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_by_its_number(line: Any, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", LINE, "", LINE, line, LINE)
    with pytest.raises(BadFile, match=message):
        check_searches(path)


def test_a_bad_line_beyond_the_first_block_has_the_right_number(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("placings.logs.json_lines.BLOCK", 1000)
    path = write(tmp_path / "s.jsonl", *[LINE] * 40, "", {**LINE, "time": "soon"}, LINE)
    with pytest.raises(BadFile, match="s.jsonl:42: 'time' must be ISO text"):
        check_searches(path)


def test_lines_of_several_blocks_and_files_are_one_table(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("placings.logs.json_lines.BLOCK", 300)
    early = [{**LINE, "search_id": f"a{n}", "focus_lat": None} for n in range(9)]
    late = [
        {**LINE, "search_id": f"b{n}", "focus_lat": 48, "region": "x",
         "results": [{**SHOWN[0], "name": "2024-01-01", "price": 2, "weight": 1.5}]}
        for n in range(9)
    ]  # fmt: skip
    write(tmp_path / "s1.jsonl", *early, *late)
    (tmp_path / "s2.jsonl.gz").write_bytes(gzip.compress(json.dumps({**LINE, "search_id": "c"}).encode()))
    actions = [{**ACTION, "search_id": name, "time": TIME} for name in ("a1", "b1", "c")]
    rows = join_logs(str(tmp_path / "s*.jsonl*"), actions).rows
    assert rows["search_id"].tolist() == ["a1", "b1", "c"]
    assert rows["region"].tolist() == [None, "x", None]
    assert rows["name"].tolist() == [None, "2024-01-01", None]
    assert rows["price"].tolist()[1] == 2


def test_times_are_utc_whatever_their_zone(tmp_path: Path) -> None:
    texts = [
        "2024-05-01T08:00:00Z",
        "2024-05-01T10:00:00+02:00",
        "2024-05-01 08:00:00",
        "2024-05-01T08:00:00.000000",
    ]
    path = write(
        tmp_path / "s.jsonl", *({**LINE, "search_id": f"s{n}", "time": t} for n, t in enumerate(texts))
    )
    berlin = timezone(timedelta(hours=2))
    actions = [{**ACTION, "search_id": f"s{n}", "time": TIME} for n in range(5)]
    assert set(join_logs(path, actions).rows["time"]) == {pd.Timestamp(TIME)}
    for time in (datetime(2024, 5, 1, 10, tzinfo=berlin), datetime(2024, 5, 1, 8, tzinfo=UTC)):
        assert join_logs([{**LINE, "search_id": "s0", "time": time}], actions).rows["time"][
            0
        ] == pd.Timestamp(TIME)
    day = [{**LINE, "search_id": "s0", "time": date(2024, 5, 1)}]
    assert join_logs(day, actions, window="9h").rows["time"][0] == pd.Timestamp("2024-05-01")


def test_ids_may_be_whole_numbers_and_become_text(tmp_path: Path) -> None:
    line = {**LINE, "search_id": 12, "results": [{"item_id": 7, "position": 1}]}
    path = write(tmp_path / "s.jsonl", line)
    rows = join_logs(path, [{**ACTION, "search_id": "12", "item_id": "7", "time": TIME}]).rows
    assert (rows["search_id"][0], rows["item_id"][0], rows["label"][0]) == ("12", "7", 1.0)


def test_a_column_without_a_single_value_is_missing_whatever_its_type(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        [{**LINE, "time": TIME, "surface": None, "session_id": float("nan"), "focus_lat": None}]
    )
    frame.to_parquet(tmp_path / "s.parquet")
    rows = join_logs(tmp_path / "s.parquet", [{**ACTION, "time": TIME}]).rows
    assert rows["surface"].tolist() == [None]
    assert rows["session_id"].tolist() == [None]


def test_missing_files_empty_files_and_mixed_kinds_are_told(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        check_searches(tmp_path / "none.jsonl")
    with pytest.raises(EmptyFile, match="is empty. A log has one object per line"):
        check_searches(write(tmp_path / "e.jsonl", "", ""))
    write(tmp_path / "s.jsonl", LINE)
    pd.DataFrame([{"x": 1}]).to_parquet(tmp_path / "s.parquet")
    with pytest.raises(BadInput, match="files of one log must be of one kind"):
        check_searches([tmp_path / "s.jsonl", tmp_path / "s.parquet"])


@pytest.mark.parametrize("value", [1.0, 1e3, True, 2**63])
def test_no_message_asks_for_what_was_given(value: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", {**LINE, "search_id": 1}, {**LINE, "search_id": value})
    with pytest.raises(BadFile, match="s.jsonl:2: 'search_id' must be text or a whole number of 64 bits"):
        check_searches(path)
    path = write(tmp_path / "s.jsonl", {**LINE, "search_id": 1}, {**LINE, "search_id": "1"})
    with pytest.raises(
        BadFile, match="'search_id' must be a whole number, as in the lines before. Got \"1\""
    ):
        check_searches(path)


def test_lengths_of_time() -> None:
    assert [parse_seconds(x, "gap") for x in (30, 30.0, "30s", "30", " 90 ", "2 m", "1h", "1d", 0)] == [
        30,
        30,
        30,
        30,
        90,
        120,
        3600,
        86400,
        0,
    ]
    for wrong in (-1, 0.5, True, "1 week", None, "x"):
        with pytest.raises(BadInput, match="gap must be whole seconds"):
            parse_seconds(wrong, "gap")


TIMES = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Asia/Tokyo")]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]


def make_actions(time: Any, text: Any) -> Any:
    """A click at 8 UTC and one at 9, in these types."""
    moments = pa.array([TIME, TIME + timedelta(hours=1)], pa.timestamp("us", getattr(time, "tz", None)))
    columns = {"search_id": ["s", "t"], "item_id": ["a", "b"], "action": ["click", "cart"]}
    texts = {name: pa.array(values).cast(text) for name, values in columns.items()}
    return pa.table({**texts, "time": moments.cast(time)})


@pytest.mark.parametrize(
    ("time", "text"),
    [*((time, TEXTS[0]) for time in TIMES), *((TIMES[-2], text) for text in TEXTS[1:])],
    ids=str,
)
def test_every_type_of_a_time_and_of_a_text_is_read(time: Any, text: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table, file = make_actions(time, text), tmp_path / "actions.parquet"
    pq.write_table(table, file)
    for log in (table, file):
        source = open_log(log, "actions")
        taken = source.ask(source.table.select(**take_columns(source, COLUMNS, need=tuple(COLUMNS))))
        assert taken.sort_values("time")["time"].tolist() == [
            pd.Timestamp(TIME),
            pd.Timestamp("2024-05-01 09:00"),
        ]
        assert sorted(taken["search_id"]) == ["s", "t"]


def test_what_pandas_writes_by_itself_is_joined(tmp_path: Path) -> None:
    seen = pd.Timestamp("2023-01-01", tz="UTC")
    searches = pd.DataFrame([{**LINE, "launched": seen, "results": [{**SHOWN[0], "seen": seen}]}])
    actions = pd.DataFrame([{**ACTION, "time": "2024-05-01T10:00:03+02:00"}])
    snapshots = pd.DataFrame([{"item_id": "a", "time": "2024-05-01T07:00:00Z", "price": 1.5}])
    for frame, name in ((searches, "s"), (actions, "a"), (snapshots, "f")):
        frame["time"] = pd.to_datetime(frame["time"], utc=True).astype("datetime64[ns, UTC]")
        frame.to_parquet(tmp_path / f"{name}.parquet")
    with join_logs(
        *(tmp_path / f"{name}.parquet" for name in "sa"), snapshots=tmp_path / "f.parquet"
    ) as joined:
        row = joined.rows.iloc[0]
    assert (row["label"], row["price"], row["time"]) == (1.0, 1.5, pd.Timestamp(TIME))
    assert row["launched"] == row["seen"] == seen


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (["1 May 2024 08:00", "1 May 2024 08:00"], "time"),
        ([b"s", b"t"], "search_id"),
        ([1.0, 2.0], "search_id"),
        ([True, False], "search_id"),
    ],
)
def test_the_advice_of_a_message_leads_to_a_log_that_is_read(values: list[Any], name: str) -> None:
    frame = pd.DataFrame({"search_id": ["s", "t"], "time": [TIME] * 2, "query": "x", "item_id": "a"})
    frame[name] = values
    with pytest.raises(BadFile) as refused:
        check_searches(frame)
    advice = str(refused.value).rpartition(": ")[2].removesuffix(".")
    frame[name] = eval(advice, {"pandas": pd, "frame": frame})
    assert check_searches(frame).missing
    if name == "time":
        assert frame["time"].dt.tz_localize(None).tolist() == [pd.Timestamp(TIME)] * 2


ITEM = {"item_id": "a", "position": 1, "price": {"amount": 3, "tax": {"rate": 0.19}}, "tags": ["x", "y"]}


@pytest.mark.parametrize("form", ["jsonl", "parquet", "memory"])
def test_objects_in_items_searches_and_snapshots_become_columns_with_dots(form: str, tmp_path: Path) -> None:
    search = {**LINE, "time": TIME, "user": {"age": 30, "home": {"city": "ka"}}, "results": [ITEM]}
    click = {**ACTION, "time": TIME, "device": {"os": "x"}}
    snapshot = {"item_id": "a", "time": TIME, "stock": {"shop": 4}}
    logs: list[Any] = []
    for name, line in (("s", search), ("a", click), ("f", snapshot)):
        path = tmp_path / f"{name}.{form}"
        if form == "jsonl":
            write(path, {**line, "time": "2024-05-01T08:00:00Z"})
        elif form == "parquet":
            pd.DataFrame([line]).to_parquet(path)
        logs.append([line] if form == "memory" else path)
    with join_logs(
        logs[0], logs[1], snapshots=pd.DataFrame([snapshot]) if form == "memory" else logs[2]
    ) as joined:
        row = joined.rows.iloc[0]
        assert joined.report.ignored == ("device.os",)
    assert (row["price.amount"], row["price.tax.rate"]) == (3, 0.19)
    assert (row["user.age"], row["user.home.city"]) == (30, "ka")
    assert row["stock.shop"] == 4
    assert list(row["tags"]) == ["x", "y"]  # a list travels along as it is
    assert not {"price", "user", "stock"} & set(row.index)


def test_one_name_for_two_values_is_refused(tmp_path: Path) -> None:
    outer = write(tmp_path / "s.jsonl", {**LINE, "user": {"age": 30}, "user.age": 31})
    with pytest.raises(
        BadFile, match="s.jsonl: column 'user.age' is there twice: by itself and in an object"
    ):
        check_searches(outer)
    inner = write(tmp_path / "t.jsonl", {**LINE, "results": [{**ITEM, "price.amount": 4}]})
    with pytest.raises(BadFile, match="t.jsonl: results have a field 'price.amount' twice"):
        check_searches(inner)
    mixed = write(
        tmp_path / "u.jsonl", {**LINE, "results": [ITEM]}, {**LINE, "results": [{**ITEM, "price": 3}]}
    )
    with pytest.raises(
        BadFile, match="u.jsonl:2: 'results.price' must be an object, as in the lines before. Got 3"
    ):
        check_searches(mixed)


def test_fields_without_a_single_value_do_no_harm(tmp_path: Path) -> None:
    nothing = {"a": {}, "b": [], "c": [{}], "d": [{"q": None}], "e": None, "f": {"x": None}, "g": {"y": []}}
    line = {
        **LINE,
        **nothing,
        "results": [{**SHOWN[0], **{f"i{name}": value for name, value in nothing.items()}}],
    }
    with join_logs(write(tmp_path / "s.jsonl", line), [{**ACTION, "time": TIME}]) as joined:
        row = joined.rows.iloc[0]
    for name in ("b", "c", "d", "e", "f.x", "g.y"):
        assert row[name] is None, name
        assert row[f"i{name}"] is None, name
