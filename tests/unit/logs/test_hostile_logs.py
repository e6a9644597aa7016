import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from placings.core import BadFile, PlacingsError
from placings.data import check_parquet, open_source, read, read_csv, seal_parquet, write
from placings.data.backends import _name_spill
from placings.data.paths import quote_globs
from placings.data.ranking import RankingData
from placings.feco.history import CREATE, CoverageStore
from placings.logs import ClickLog, import_ubi, join_logs
from placings.logs.json_lines import read_json_lines
from placings.logs.json_scan import SMALL, scan_block

TIME = "2024-05-01T08:00:00Z"
CLICK = {"search_id": "s", "item_id": "b", "time": "2024-05-01T08:01:00Z", "action": "click"}


def write_lines(path, *records):
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in records))
    return path


def make_rows(item):
    return pa.table({"search_id": ["s"], "item_id": [item], "position": [1], "label": [1.0]})


@pytest.mark.parametrize("before", [0, 400])  # a small block takes the plain loop, a large one the compiled
def test_a_line_10000_brackets_deep_is_refused_with_its_number_and_its_limit(tmp_path, before):
    good = json.dumps({"search_id": "a", "time": TIME, "query": "x" * 100, "results": []})
    deep = f'{{"search_id": "s", "time": "{TIME}", "query": "q", "x": {"[" * 10_000}{"]" * 10_000}}}'
    searches = write_lines(tmp_path / "s.jsonl", *[good] * before, deep)
    with pytest.raises(BadFile, match=rf"s\.jsonl:{before + 1}: values nested .* PLACINGS_LIMIT_DEPTH"):
        join_logs(searches, write_lines(tmp_path / "a.jsonl", CLICK))


def test_brackets_in_a_text_are_not_nesting(tmp_path):
    search = {
        "search_id": "s",
        "time": TIME,
        "query": "[" * 500,
        "results": [{"item_id": "b", "position": 1}],
    }
    joined = join_logs(write_lines(tmp_path / "s.jsonl", search), write_lines(tmp_path / "a.jsonl", CLICK))
    assert joined.rows["query"].tolist() == ["[" * 500]


def test_what_a_user_types_is_never_a_key(tmp_path):
    typed = ["results", '"results"', '"results": [{', "item_id", '"time":', '\\"results\\":', "name", "\\"]
    shown = {"time": TIME, "item_id": "b", "position": 1}
    searches = [{"query": query, "search_id": f"s{n}", **shown} for n, query in enumerate(typed)]
    clicks = [{**CLICK, "search_id": f"s{n}"} for n in range(len(typed))]
    files = write_lines(tmp_path / "s.jsonl", *searches), write_lines(tmp_path / "a.jsonl", *clicks)
    joined = join_logs(*files)
    rows = joined.rows.sort_values("search_id")
    assert rows[["query", "item_id", "label"]].values.tolist() == [[query, "b", 1.0] for query in typed]
    assert "results" not in joined.columns
    assert "name" not in joined.columns


def test_a_key_written_with_escapes_is_the_key(tmp_path):
    line = f'{{"search_id": "s", "time": "{TIME}", "query": "q", "\\u0072esults": [{{"item_id": "b"}}]}}'
    joined = join_logs(write_lines(tmp_path / "s.jsonl", line), write_lines(tmp_path / "a.jsonl", CLICK))
    assert joined.rows["item_id"].tolist() == ["b"]


def test_an_id_after_a_text_that_looks_like_it_keeps_its_kind(tmp_path):
    search = {"query": '"item_id": 7', "search_id": "s", "time": TIME, "results": [{"item_id": "b"}]}
    joined = join_logs(write_lines(tmp_path / "s.jsonl", search), write_lines(tmp_path / "a.jsonl", CLICK))
    assert joined.rows["label"].tolist() == [1.0]


def test_the_plain_and_the_compiled_loop_find_the_same_keys():
    line = b'{"a": [{"b": null, "c": "x\\"y"}, {"b": -1}], "d": {"e": {}}, "f": "{\\"g\\": 1}"}\n'
    many = line * (SMALL // len(line) + 1)
    told = {("a",): 91, ("a", "b"): 45, ("a", "c"): 34, ("d",): 123, ("d", "e"): 123, ("f",): 34}
    assert scan_block(line).keys == scan_block(many).keys == told


def test_a_log_with_a_new_key_in_every_line_is_refused(tmp_path):
    log = write_lines(tmp_path / "rows.jsonl", *(f'{{"k{number}": 1}}' for number in range(5000)))
    with pytest.raises(BadFile, match=r":4097: a log with more than 4,096 .* PLACINGS_LIMIT_FIELDS"):
        ClickLog.read(log)


def test_a_log_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    log = tmp_path / "rows.jsonl"
    log.write_bytes(b'{"search_id": "s"}\n{"search_id": "\xf6"}\n')
    with pytest.raises(BadFile, match=r"rows\.jsonl:2: is not UTF-8 text \(byte 0xf6\)"):
        ClickLog.read(log)


def test_ubi_counts_what_it_cannot_hold(tmp_path):
    query = {"query_id": "q", "timestamp": TIME, "user_query": "x"}
    shown = {"query_id": "q", "action_name": "impression", "timestamp": TIME}
    shown["event_attributes"] = {"object": {"object_id": "a"}, "position": {"ordinal": 10**30}}
    half = '{"query_id": "h", "timestamp": "2024-05-01T08:00:00Z", "user_query": "\\ud800"}'
    deep = f'{{"query_id": {"[" * 70}{"]" * 70}}}'
    log = import_ubi(write_lines(tmp_path / "u.ndjson", query, shown, half, deep))
    assert log.searches["results"].to_pylist() == [[{"item_id": "a", "position": 1, "score": None}]]
    assert log.report.refused == {"text with half a character": 1, "nested too deep": 1}


@pytest.mark.parametrize(("name", "others"), [("p[1]", ["p1"]), ("a?", ["ab", "ac"]), ("x*", ["xy"])])
def test_a_path_that_exists_is_literal(tmp_path, name, others):
    for each in (name, *others):
        pq.write_table(make_rows(each), tmp_path / f"{each}.parquet")
        (tmp_path / f"{each}.csv").write_text(f"search_id,item_id,position,label\ns,{each},1,1\n")
        line = {"search_id": "s", "item_id": each, "position": 1, "label": 1}
        write_lines(tmp_path / f"{each}.jsonl", line)
    for ending in ("parquet", "csv", "jsonl"):
        with ClickLog.read(tmp_path / f"{name}.{ending}") as log:
            assert log.rows["item_id"].tolist() == [name]


def test_a_glob_still_matches_and_what_it_matches_is_literal(tmp_path):
    for name in ("p1", "p[1]"):
        pq.write_table(make_rows(name), tmp_path / f"{name}.parquet")
    with ClickLog.read(str(tmp_path / "p*.parquet")) as log:
        assert sorted(log.rows["item_id"]) == ["p1", "p[1]"]
    assert quote_globs(["/a/p[1]?*.csv"]) == ["/a/p[[]1][?][*].csv"]


def test_the_embedded_backend_fetches_and_loads_no_extension():
    source = open_source({"x": [1]})
    settings = ("autoinstall_known_extensions", "autoload_known_extensions")
    told = [source.backend.raw_sql(f"SELECT current_setting('{name}')").fetchall()[0][0] for name in settings]
    source.backend.disconnect()
    assert told == [False, False]


def test_spills_go_to_a_folder_of_ours_alone():
    one, other = Path(_name_spill()), Path(_name_spill())
    assert one != other
    assert one.parent == other.parent
    facts = one.parent.lstat()
    assert stat.S_ISDIR(facts.st_mode)
    assert stat.S_IMODE(facts.st_mode) == 0o700
    assert str(os.getpid()) not in one.parent.name


def test_spills_are_gone_after_an_error(tmp_path):
    code = (
        "from placings.data import open_source; open_source({'x': [1]}); raise SystemExit('x' + str(1 / 0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True
    )
    assert b"ZeroDivisionError" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_byte_of_a_file_of_ours_is_seen(tmp_path):
    X, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([0, 1, 0, 2, 0, 1])
    whole, path = tmp_path / "whole.parquet", tmp_path / "data.parquet"
    write(RankingData.from_arrays(X, y, [1, 1, 1, 2, 2, 2]), whole)
    content = whole.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        with pytest.raises(PlacingsError):
            read(path)


def test_joined_rows_are_sealed_whoever_writes_them(tmp_path):
    search = {"search_id": "s", "time": TIME, "query": "q", "results": [{"item_id": "b", "position": 1}]}
    joined = join_logs(write_lines(tmp_path / "s.jsonl", search), write_lines(tmp_path / "a.jsonl", CLICK))
    for name, log in (("duckdb", joined), ("memory", ClickLog(joined.rows))):
        path = log.write(tmp_path / f"{name}.parquet")
        content = bytearray(path.read_bytes())
        assert pq.read_table(path)["item_id"].to_pylist() == ["b"]  # others read it as any parquet
        content[10] ^= 1
        path.write_bytes(content)
        with pytest.raises(BadFile, match="is damaged"):
            ClickLog.read(path)


def test_a_file_without_a_seal_is_read_and_a_second_seal_does_no_harm(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(make_rows("b"), path)
    check_parquet(path)
    seal_parquet(path)
    check_parquet(path)
    with ClickLog.read(path) as log:
        assert log.rows["item_id"].tolist() == ["b"]


@pytest.mark.parametrize(
    ("text", "line"),
    [('a,"b,1\nc,d,2\ne,"f",3\n', 2), ('a,b,1\nc,"d,2\ne,f,3\n', 3), ('a,b,1\nc,d,2\ne,"f,3', 4)],
)
def test_a_quote_that_does_not_close_is_refused_with_its_line(tmp_path, text, line):
    path = tmp_path / "rows.csv"
    path.write_text("search_id,item_id,label\n" + text)
    for reader in (read_csv, ClickLog.read):
        with pytest.raises(BadFile, match=rf"rows\.csv:{line}: a quote opens here"):
            reader(path)


def test_quoted_line_breaks_and_stray_quotes_are_values(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('search_id,item_id,position,label\ns,"a\nb",1,1\ns,5" pipe,2,0\ns,"c ""d""",3,0\n')
    with ClickLog.read(path) as log:
        assert log.rows["item_id"].tolist() == ["a\nb", '5" pipe', 'c "d"']
    named = {"qid": "search_id", "label": "label", "item": "item_id", "features": ["position"]}
    assert read_csv(path, **named).items.tolist() == ["a\nb", '5" pipe', 'c "d"']


def test_a_header_in_latin_1_is_one_sentence(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("qid,label,größe\n1,1,2\n".encode("latin-1"))
    for reader in (read_csv, ClickLog.read):
        with pytest.raises(BadFile, match=r"rows\.csv:1: is not UTF-8 text \(byte 0xf6\)"):
            reader(path)


def test_infinite_numbers_are_missing_and_an_infinite_label_is_refused(tmp_path):
    rows = {"search_id": ["s"] * 3, "item_id": list("abc"), "position": [1, 2, 3], "label": [1.0, 0.0, 0.0]}
    rows["score"] = [np.inf, -np.inf, 2.0]
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(rows), path)
    for log in (ClickLog(rows), ClickLog.read(path)):
        assert log.rows["score"].fillna(-1.0).tolist() == [-1.0, -1.0, 2.0]
    rows["label"] = [np.inf, 0.0, 0.0]
    pq.write_table(pa.table(rows), path)
    with pytest.raises(PlacingsError, match="'label' that must hold finite numbers"):
        ClickLog(rows)
    with pytest.raises(PlacingsError, match="'label' that must hold finite numbers"):
        ClickLog.read(path)


def fill_store(path):
    import pandas as pd

    days = pd.date_range("2024-01-01", periods=30)
    frame = pd.DataFrame({"feature": "rating", "window": days, "coverage": 0.5, "events": range(30)})
    store = CoverageStore(path)
    store.put(frame, rule="non_zero")
    return store.read()


def test_a_coverage_store_with_flipped_bits_is_refused_or_unchanged(tmp_path):
    wanted = fill_store(tmp_path / "whole.sqlite")
    content = (tmp_path / "whole.sqlite").read_bytes()
    refused = 0
    for place in range(4096, 8192, 61):
        path = tmp_path / f"{place}.sqlite"
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            assert CoverageStore(path).read().equals(wanted)
        except BadFile:
            refused += 1
    assert refused > 10


def test_a_coverage_store_of_layout_1_gets_its_checksums(tmp_path):
    import sqlite3

    path = tmp_path / "old.sqlite"
    base = sqlite3.connect(path)
    base.execute(CREATE.replace(" checksum INTEGER,", ""))
    row = ("non_zero", "row", 86_400, "[]", "rating", 0, "[]", 0.5, None, None, 10, 5.0, None, 0)
    base.execute(f"INSERT INTO coverage VALUES ({', '.join('?' * 14)})", row)
    base.execute("PRAGMA user_version = 1")
    base.commit()
    base.close()
    assert CoverageStore(path).read()["coverage"].tolist() == [0.5]
    (tmp_path / "no.sqlite").write_text("no store at all, but a text that is long enough for a header" * 9)
    with pytest.raises(BadFile, match="is not a coverage store that can be used"):
        CoverageStore(tmp_path / "no.sqlite")


def test_many_empty_items_beside_one_of_many_fields_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "searches.jsonl"
    fields = ",".join(f'"k{number}": 1' for number in range(500))
    path.write_text(f'{{"search_id": "s", "results": [{{{fields}}}{",{}" * 20_000}]}}\n')
    # 500 fields in 20,000 items: 10 million cells of 66 kB
    with pytest.raises(BadFile, match="PLACINGS_LIMIT_SPARSE"):
        read_json_lines([str(path)], {}, {})
