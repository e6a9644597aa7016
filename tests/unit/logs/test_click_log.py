"""The click log: what its door lets in, that files give it back, and how it is cut into parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import placings as pg
from placings.core.errors import BadFile, BadInput, Guess, UnknownName
from placings.logs.click_log import deal_units

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ibis")

START = datetime(2024, 5, 1, 8)


def make_rows(searches: int = 12, *, sessions: int = 5, users: int = 3, items: int = 3) -> Any:
    """Searches a minute apart, dealt round to sessions and those to users, with the columns of a service."""
    rows = []
    for number in range(searches):
        session = number % sessions
        for place in range(1, items + 1):
            rows.append({
                "search_id": f"s{number:02}", "session_id": f"t{session}", "user_id": f"u{session % users}",
                "time": START + timedelta(minutes=number), "query": "2024-01-01", "device": "phone",
                "arm": number % 2, "model": "m1", "propensity": 1.0 / place, "item_id": f"i{place}",
                "position": place, "score": 1.0 / place, "price": 3.5 * place, "colour": "red",
                "label": float(place == 1 + number % items),
            })  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["time"] = frame["time"].astype("datetime64[us]")
    return frame


def test_rows_are_in_order_of_time_search_and_position_and_the_input_stays() -> None:
    rows = make_rows()
    mixed = rows.sample(frac=1.0, random_state=0)
    before = mixed.copy()
    log = pg.ClickLog(mixed)
    pd.testing.assert_frame_equal(log.rows, rows)
    pd.testing.assert_frame_equal(mixed, before)
    assert (len(log), log.n_searches, log.report, log.unsuccessful) == (36, 12, None, None)
    assert repr(log) == "ClickLog(36 rows in 12 searches, in memory)"
    assert log.columns == tuple(rows.columns)


@pytest.mark.parametrize("kind", ["arrow", "polars", "dict", "ibis", "log"])
def test_tables_of_any_make_give_the_same_rows(kind: str) -> None:
    rows = make_rows()
    if kind == "polars":
        table = pytest.importorskip("polars").from_pandas(rows)
    elif kind == "ibis":
        from placings.data.backends import open_table

        table = open_table(rows)
    else:
        makers = {
            "arrow": pa.Table.from_pandas,
            "dict": lambda frame: frame.to_dict("list"),
            "log": pg.ClickLog,
        }
        table = makers[kind](rows)
    pd.testing.assert_frame_equal(pg.ClickLog(table).rows, rows, check_dtype=kind != "dict")


# -- the door ---------------------------------------------------------------------------------------------


@contextmanager
def opened(rows: Any, where: str) -> Iterator[Any]:
    """A log of these rows in memory, or of a parquet file that holds them."""
    if where == "memory":
        yield pg.ClickLog(rows)
        return
    with TemporaryDirectory() as folder:
        rows.to_parquet(Path(folder) / "rows.parquet", index=False)
        with pg.ClickLog.read(Path(folder) / "rows.parquet") as log:
            yield log


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("missing", ["search_id", "item_id", "label"])
def test_a_column_that_is_needed_is_named_with_what_makes_it(where: str, missing: str) -> None:
    with (
        pytest.raises((BadInput, BadFile), match=f"lacks {missing}. placings log join makes one that has it"),
        opened(make_rows().drop(columns=missing), where),
    ):
        pass


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize(
    ("column", "values", "wanted", "got", "fix"),
    [
        ("search_id", 1.5, "text or whole numbers", "numbers, such as 1.5", "astype"),
        ("item_id", True, "text or whole numbers", "true or false, such as", "astype"),
        ("position", "first", "numbers", "text, such as 'first'", "to_numeric"),
        ("label", "yes", "numbers", "text, such as 'yes'", "to_numeric"),
        ("time", 12_345, "times", "12345, which is no time of 1973 to 2286", "time_unit"),
        ("time", "yesterday", "timestamps", "text, such as 'yesterday'", "to_datetime"),
        ("query", 3, "text", "whole numbers, such as 3", "Write it as text"),
        ("device", 3.5, "text", "numbers, such as 3.5", "Write it as text"),
        ("user_id", 2.5, "text or whole numbers", "numbers, such as 2.5", "astype"),
        ("propensity", "likely", "numbers", "text, such as 'likely'", "to_numeric"),
        ("propensity", 0.0, "above 0 and at most 1", "0.0", "write null"),
        ("propensity", 1.5, "above 0 and at most 1", "1.5", "write null"),
        ("chain_last", "no", "true or false", "text, such as 'no'", "true or false"),
    ],
)
def test_a_column_of_the_wrong_kind_says_what_got_and_fix(
    where: str, column: str, values: Any, wanted: str, got: str, fix: str
) -> None:
    with (
        pytest.raises((BadInput, BadFile)) as caught,
        opened(make_rows().assign(**{column: values}), where),
    ):
        pass
    told = str(caught.value)
    for words in (f"column {column!r}", f"must be {wanted}", f"Got {got}", fix):
        assert words in told, told


@pytest.mark.parametrize("where", ["memory", "file"])
def test_what_pandas_makes_of_whole_numbers_flags_and_text_times_is_let_in(where: str) -> None:
    rows = make_rows().assign(
        session_id=[None if row % 4 == 0 else float(row // 9) for row in range(36)],  # ids with gaps
        time=[f"2024-05-01T10:{row // 3:02}:00+02:00" for row in range(36)],  # 08:00 in UTC
        label=lambda frame: frame["label"] > 0,
        propensity=None,
        surface=None,
    )
    with opened(rows, where) as log:
        found = log.rows
    assert found["time"].iloc[0] == pd.Timestamp(START)
    assert found["time"].dtype == "datetime64[us]"
    assert found["label"].tolist() == make_rows()["label"].tolist()
    assert found["session_id"].isna().sum() == 9
    assert found["colour"].tolist() == ["red"] * 36  # a field that nobody knows travels along


def test_positions_are_counted_in_row_order_where_there_are_none_and_a_warning_says_so() -> None:
    rows = make_rows(3).drop(columns="position")
    with pytest.warns(Guess, match="no position: they are taken to stand in the order"):
        counted = pg.ClickLog(rows)
    assert counted.rows["position"].tolist() == [1, 2, 3] * 3
    assert "position" not in pg.ClickLog(rows, count_positions=False).columns


def test_a_file_without_positions_is_refused_unless_there_are_none(tmp_path: Path) -> None:
    make_rows(3).drop(columns="position").to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(BadFile, match="lacks position"):
        pg.ClickLog.read(tmp_path / "rows.parquet")
    with pg.ClickLog.read(tmp_path / "rows.parquet", count_positions=False) as log:
        assert len(log) == 9
        assert "position" not in log.columns


def test_searches_with_their_lists_are_no_rows() -> None:
    nested = {"search_id": ["s"], "results": [[{"item_id": "a"}]]}
    with pytest.raises(BadInput, match=r"pg.join_logs joins them"):
        pg.ClickLog(nested)
    with pytest.raises(BadInput, match=r"Got 'rows.parquet'. ClickLog.read reads files"):
        pg.ClickLog("rows.parquet")


# -- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_file_or_a_folder_of_parts_is_read_back(tmp_path: Path, form: str, parts: int) -> None:
    rows = make_rows().assign(search_id=[f"{row // 3:03}" for row in range(36)])  # digits that stay text
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(36), parts)):
        file, piece = folder / f"part-{number}.{form}", rows.iloc[part]
        if form == "parquet":
            piece.to_parquet(file)  # with pandas' index, which is no column
        elif form == "csv":
            piece.to_csv(file, index=False)
        else:
            piece.to_json(file, orient="records", lines=True, date_format="iso")
    with pg.ClickLog.read(folder if parts > 1 else next(folder.iterdir())) as log:
        assert repr(log).endswith("duckdb, nothing fetched yet)")
        found = log.rows
    assert set(found.columns) == set(rows.columns)
    arm = {"arm": str} if form == "csv" else {}  # ids in a CSV file are text
    pd.testing.assert_frame_equal(found[list(rows)], rows.astype(arm), check_dtype=False)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "rows.parquet").write_text("no")
    (tmp_path / "rows.jsonl").write_text(json.dumps({"search_id": "s", "label": "x"}) + "\n")
    for name, words in (
        ("empty", "folder without .parquet, .jsonl or .csv files"),
        ("rows.parquet", "is no parquet file"),
        ("row.parquet", "no such file. Beside it:"),
        ("rows.jsonl", "'label' must be a number. Got \"x\""),
    ):
        with pytest.raises(BadFile, match=words):
            pg.ClickLog.read(tmp_path / name)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
tables = st.lists(
    st.tuples(texts, texts, st.floats(0, 4), st.floats(allow_nan=False), st.none() | texts,
              st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1))),
    min_size=1, max_size=20, unique_by=lambda row: (row[0], row[1]),
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(tables)
def test_what_is_written_is_read_back(given_rows: list[tuple[Any, ...]]) -> None:
    names = ["search_id", "item_id", "label", "price", "colour", "time"]
    frame = pd.DataFrame(given_rows, columns=names)
    frame["position"] = np.arange(1, len(frame) + 1)
    frame["time"] = frame["time"].astype("datetime64[us]")
    log = pg.ClickLog(frame)
    with TemporaryDirectory() as folder:
        log.write(Path(folder) / "rows.parquet")
        with pg.ClickLog.read(Path(folder) / "rows.parquet") as again:
            found = again.rows
    pd.testing.assert_frame_equal(found, log.rows)


def test_a_closed_log_keeps_what_was_fetched_and_says_that_the_rest_is_gone(tmp_path: Path) -> None:
    pg.ClickLog(make_rows()).write(tmp_path / "rows.parquet")
    with pg.ClickLog.read(tmp_path / "rows.parquet") as log:
        first, last = log.split(0.5, 0.5)
        first.rows  # noqa: B018
    assert len(first.rows) == len(first)
    for gone in (log, last):
        with pytest.raises(BadInput, match="closed, and its rows were not fetched"):
            gone.rows  # noqa: B018


def test_rows_are_written_as_parquet_alone(tmp_path: Path) -> None:
    log = pg.ClickLog(make_rows(2))
    with pytest.raises(BadInput, match=r"must end in .parquet"):
        log.write(tmp_path / "rows.csv")
    with pytest.raises(BadInput, match="only a log that join_logs made"):
        log.write(tmp_path / "rows.parquet", unsuccessful=tmp_path / "lost.parquet")


# -- parts ------------------------------------------------------------------------------------------------


def deal_by_hand(rows: Any, shares: tuple[float, ...], by: str, seed: int) -> list[list[str]]:
    """The searches of each part, as the places study dealt them out before there was a click log."""
    frame = rows.sort_values(["time", "search_id", "position"], kind="stable")
    sessions = frame["session_id"].drop_duplicates().to_numpy()
    if by == "session":
        names = np.sort(sessions.astype(str))
        order = np.random.default_rng(seed).permutation(len(names))
        sessions = np.array(list(names[order]), dtype=object)
    borders = np.rint(np.cumsum(shares) * len(sessions)).astype(int)
    part = {
        session: int(np.searchsorted(borders, place, side="right")) for place, session in enumerate(sessions)
    }
    dealt = frame["session_id"].map(part)
    return [frame.loc[dealt == number, "search_id"].unique().tolist() for number in range(len(shares))]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), min_size=12, max_size=60),
    st.sampled_from(["time", "session"]),
    st.integers(0, 5),
)
def test_sessions_are_dealt_as_the_places_study_deals_them(
    heads: list[tuple[int, int]], by: str, seed: int
) -> None:
    frame = pd.DataFrame(
        {
            "search_id": [f"s{number}" for number in range(len(heads))],
            "session_id": [f"t{session}" for session, _ in heads],
            "time": [START + timedelta(minutes=minute) for _, minute in heads],
            "item_id": "a",
            "position": 1,
            "label": 1.0,
        }
    )
    wanted = deal_by_hand(frame, (0.6, 0.2, 0.2), by, seed)
    if not all(wanted):
        with pytest.raises(BadInput, match="would be empty"):
            pg.ClickLog(frame).split(0.6, 0.2, 0.2, by=by, random_state=seed)
        return
    parts = pg.ClickLog(frame).split(0.6, 0.2, 0.2, by=by, random_state=seed)
    assert [part.rows["search_id"].tolist() for part in parts] == wanted


@settings(max_examples=40, deadline=None)
@given(
    st.integers(10, 40),
    st.integers(5, 9),
    st.integers(3, 4),
    st.sampled_from(["time", "session", "user", "search"]),
    st.integers(0, 3),
)
def test_each_search_is_in_one_part_and_what_is_dealt_is_never_cut(
    searches: int, sessions: int, users: int, by: str, seed: int
) -> None:
    rows = make_rows(searches, sessions=sessions, users=users, items=2)
    mixed = rows.sample(frac=1.0, random_state=seed)
    parts = pg.ClickLog(mixed).split(0.4, 0.3, 0.3, by=by, random_state=seed)
    again = pd.concat([part.rows for part in parts])
    assert len(again) == len(rows)
    assert sum(part.n_searches for part in parts) == searches
    unit = {"time": "session_id", "session": "session_id", "user": "user_id", "search": "search_id"}[by]
    held = [set(part.rows[unit]) for part in parts]
    count = rows[unit].nunique()
    assert sum(map(len, held)) == len(set.union(*held)) == count  # in exactly one part
    borders = np.rint(np.cumsum([0.4, 0.3, 0.3]) * count)
    assert [len(each) for each in held] == np.diff([0, *borders]).tolist()
    if by == "time":
        began = [part.rows.groupby("session_id")["time"].min() for part in parts]
        assert all(before.max() <= after.min() for before, after in pairwise(began))


def test_a_random_deal_hangs_on_names_and_seed_alone() -> None:
    rows = make_rows(30, sessions=10)
    moved = rows.assign(time=rows["time"].to_numpy()[::-1])
    first, second, other = (
        [
            set(part.rows["session_id"])
            for part in pg.ClickLog(table).split(0.5, 0.5, by="session", random_state=seed)
        ]
        for table, seed in ((rows, 1), (moved, 1), (rows, 2))
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize("by", ["time", "session", "user", "search"])
def test_a_log_on_a_backend_is_cut_there_as_in_memory(tmp_path: Path, by: str) -> None:
    rows = make_rows(20, sessions=7)
    rows.loc[rows["search_id"] == "s03", ["session_id", "user_id"]] = None
    pg.ClickLog(rows).write(tmp_path / "rows.parquet")
    wanted = pg.ClickLog(rows).split(0.6, 0.4, by=by, random_state=3)
    with pg.ClickLog.read(tmp_path / "rows.parquet") as log:
        parts = log.split(0.6, 0.4, by=by, random_state=3)
        assert log._frame is None  # only one line a search came to memory
        for part, same in zip(parts, wanted, strict=True):
            assert len(part) == len(same)
            pd.testing.assert_frame_equal(part.rows, same.rows)


def test_a_log_without_sessions_is_dealt_by_search_and_a_warning_says_so() -> None:
    log = pg.ClickLog(make_rows(10).drop(columns=["session_id", "user_id"]))
    with pytest.warns(Guess, match="no session_id: single searches are dealt out"):
        first, last = log.split(0.8, 0.2)
    assert first.rows["search_id"].unique().tolist() == [f"s0{number}" for number in range(8)]
    assert last.rows["search_id"].unique().tolist() == ["s08", "s09"]
    with pytest.raises(BadInput, match=r"by='user' needs a column user_id.*split by='session'"):
        log.split(0.8, 0.2, by="user")


def test_a_log_without_times_is_dealt_in_order_of_its_searches_and_a_warning_says_so() -> None:
    log = pg.ClickLog(make_rows(10, sessions=10).drop(columns="time"))
    with pytest.warns(Guess, match="no column time: what is dealt out is in order of search_id"):
        first, _ = log.split(0.3, 0.7)
    assert first.rows["search_id"].unique().tolist() == ["s00", "s01", "s02"]


def test_shares_and_names_that_make_no_split_are_refused() -> None:
    log = pg.ClickLog(make_rows(4, sessions=2))
    with pytest.raises(BadInput, match=r"add up to 1. Got \(0.5, 0.4\)"):
        log.split(0.5, 0.4)
    with pytest.raises(UnknownName, match="no split 'sesion'; did you mean 'session'"):
        log.split(0.5, 0.5, by="sesion")
    with pytest.raises(BadInput, match="part 3 of .* would be empty. Got 4 searches, dealt by time"):
        log.split(0.6, 0.2, 0.2)  # of two sessions, rint(1.2) = 1 and rint(1.6) = 2 leave the third none


def test_units_are_dealt_by_first_appearance() -> None:
    # five units: rint(0.6 · 5) = 3, rint(0.8 · 5) = 4
    assert deal_units(list("abacdeb"), (0.6, 0.2, 0.2), None).tolist() == [0, 0, 0, 0, 1, 2, 0]


# -- what is done with it ---------------------------------------------------------------------------------


def test_ranking_data_keeps_propensity_position_time_and_segments() -> None:
    log = pg.ClickLog(make_rows(4))
    data = log.to_ranking("shop")
    assert data.propensity is not None
    assert data.position is not None
    np.testing.assert_allclose(data.propensity, [1.0, 0.5, 1 / 3] * 4, rtol=1e-15)
    assert data.position.tolist() == [1, 2, 3] * 4
    assert set(data.segments) == {"query", "session_id", "user_id", "device", "arm"}
    assert data.segments["user_id"][:4].tolist() == ["u0", "u0", "u0", "u1"]
    assert "price" in data.feature_names
    assert not {"arm", "model", "propensity", "user_id"} & {name.split("=")[0] for name in data.feature_names}
    with pytest.raises(UnknownName, match="no features 'shops'; did you mean 'shop'"):
        log.to_ranking("shops")


def test_a_fitted_set_gives_a_second_log_the_same_columns() -> None:
    from placings.features import numeric_features

    first, second = pg.ClickLog(make_rows(6)).split(0.5, 0.5, by="search")
    features = numeric_features(["price"]).fit(first.rows)
    assert second.to_ranking(features).X[:, 0].tolist() == [3.5, 7.0, 10.5] * 3


def test_the_join_gives_a_log_with_its_report() -> None:
    shown = [{"item_id": "a", "position": 1}, {"item_id": "b", "position": 2}]
    searches = [
        {"search_id": name, "time": START, "query": "x", "device": "tv", "user_id": "u", "results": shown}
        for name in ("s", "t")
    ]
    click = {"search_id": "s", "item_id": "b", "time": START, "action": "click"}
    with pg.join_logs(searches, [click]) as log:
        assert isinstance(log, pg.ClickLog)
        assert log.report is not None
        assert log.report.actions["used"] == 1
        assert repr(log) == "ClickLog(2 rows in 1 searches, duckdb)"
        assert log.rows[["search_id", "item_id", "label", "device", "user_id"]].to_numpy().tolist() == [
            ["s", "a", 0.0, "tv", "u"],
            ["s", "b", 1.0, "tv", "u"],
        ]
        assert log.unsuccessful is not None
        assert log.unsuccessful["search_id"].tolist() == ["t"]


def test_the_old_name_of_a_joined_log_still_answers() -> None:
    from placings.logs import joins

    with pytest.warns(DeprecationWarning, match="Joined is now called ClickLog"):
        assert joins.Joined is pg.ClickLog


def test_the_explorer_is_written_of_a_log(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    page = pg.ClickLog(make_rows(12)).explore(tmp_path / "log.html", title="Our shop", types="colour")
    assert page == tmp_path / "log.html"
    assert "Our shop" in page.read_text()
