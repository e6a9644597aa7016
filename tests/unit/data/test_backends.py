"""Tables of every kind become the same Ibis table; what cannot be read is told."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadFile, BadInput, MissingExtra, PlacingsError, UnknownName
from placings.data.backends import need_ibis, open_source, opened, start_spark
from placings.feco.score import coverage

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
ibis = pytest.importorskip("ibis")

FRAME = pd.DataFrame({"x": [1.0, 0.0, np.nan, 2.0], "n": [1, 2, 0, 0], "s": ["a", "b", "a", "b"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FRAME.iloc[:2].to_parquet(tmp_path / "a.parquet")
    FRAME.iloc[2:].to_parquet(tmp_path / "b.parquet")
    FRAME.to_csv(tmp_path / "all.csv", index=False)
    FRAME.to_csv(tmp_path / "all.tsv", index=False, sep="\t")
    (tmp_path / "all.csv.gz").write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
    return tmp_path


def give(kind: str, folder: Path) -> Any:
    files = {
        "folder": folder, "glob": str(folder / "*.parquet"), "csv": folder / "all.csv",
        "tsv": str(folder / "all.tsv"), "gzip": folder / "all.csv.gz",
        "list": [folder / "a.parquet", str(folder / "b.parquet")],
    }  # fmt: skip
    tables = {
        "pandas": lambda: FRAME, "polars": lambda: pl.from_pandas(FRAME),
        "lazy": lambda: pl.from_pandas(FRAME).lazy(),
        "arrow": lambda: pa.Table.from_pandas(FRAME), "mapping": lambda: FRAME.to_dict("list"),
        "ibis": lambda: ibis.memtable(FRAME), "duckdb": lambda: open_source(FRAME).table,
    }  # fmt: skip
    return files[kind] if kind in files else tables[kind]()


@pytest.mark.parametrize(
    "kind",
    [
        "folder",
        "glob",
        "csv",
        "tsv",
        "gzip",
        "list",
        "pandas",
        "polars",
        "lazy",
        "arrow",
        "mapping",
        "ibis",
        "duckdb",
    ],
)
def test_every_kind_of_table_has_the_same_coverage(kind: str, folder: Path) -> None:
    frame = coverage(give(kind, folder), by="s").to_pandas()
    assert frame.values.tolist() == coverage(FRAME, by="s").to_pandas().values.tolist()
    assert frame["coverage"].tolist() == [0.5, 0.5, 0.5, 0.5]
    assert frame["events"].tolist() == [2] * 4


def test_odd_types_are_read() -> None:
    columns = {
        "half": pa.array(np.array([1, 0], np.float16)), "small": pa.array([1, None], pa.uint8()),
        "huge": pa.array([2**63, 0], pa.uint64()), "money": pa.array([1, 0], pa.decimal128(10, 2)),
        "coded": pa.array([1.0, 0.0]).dictionary_encode(), "when": pa.array([1, 2], pa.duration("s")),
    }  # fmt: skip
    found = coverage(pa.table(columns))
    assert found.features == ("half", "small", "huge", "money", "coded")
    assert found.to_pandas()["coverage"].tolist() == [0.5] * 5


def test_the_embedded_engine_is_closed() -> None:
    with opened(FRAME) as source:
        assert source.kind == "duckdb"
        assert source.own
    with pytest.raises(PlacingsError, match="closed"):
        source.ask(source.table.aggregate(n=source.table.count()))


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis calls it
def test_an_ibis_table_is_asked_where_it_is_and_left_open() -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("log", pa.Table.from_pandas(FRAME))
    table = connection.table("log")
    assert coverage(table.filter(table.n > 0))["x"] == 0.5
    assert coverage(table)["x"] == 0.5
    assert coverage(FRAME, backend=connection)["n"] == 0.5
    connection.raw_sql("SET TimeZone='Asia/Tokyo'")
    for options in ({"table": table}, {"table": FRAME, "backend": connection}):
        with pytest.raises(BadInput, match="the session's time zone must be UTC. Got 'Asia/Tokyo'"):
            coverage(**options)


@pytest.mark.parametrize(("table", "message"), [
    ("none.parquet", "none.parquet: there is no such file, and no file matches it"),
    ("*.parquet", "no file matches it"),
    (["none.csv"], "no such file"),
])  # fmt: skip
def test_files_that_are_not_there_are_told(
    table: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFile, match=message):
        coverage(table)


def test_files_that_cannot_be_read_are_told(folder: Path) -> None:
    (folder / "bad.parquet").write_text("no parquet")
    with pytest.raises(BadFile, match="bad.parquet: cannot be read by the backend"):
        coverage(folder / "bad.parquet")
    (folder / "notes.docx").write_text("")
    with pytest.raises(BadFile, match="must end in .parquet, .csv"):
        coverage(folder / "notes.docx")
    with pytest.raises(BadInput, match="of one kind. Got csv and parquet"):
        coverage([folder / "a.parquet", folder / "all.csv"])
    (folder / "empty").mkdir()
    with pytest.raises(BadFile, match="is a folder without .parquet files"):
        coverage(folder / "empty")


def test_a_number_that_turns_into_text_late_in_a_csv_is_told(tmp_path: Path) -> None:
    rows = ["x", *(["1.5"] * 60_000), "n/a", "2"]
    (tmp_path / "late.csv").write_text("\n".join(rows))
    with pytest.raises(BadFile, match="late.csv.*n/a") as caught:
        coverage(tmp_path / "late.csv")
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(("table", "message"), [
    (5, "table must be a path, .* Got int"),
    (None, "Got NoneType"),
    ([], "Got list"),
    (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), "two columns named 'x'"),
])  # fmt: skip
def test_what_is_no_table_is_refused(table: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        coverage(table)


def test_an_engine_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownName, match="no backend 'duckbd'; did you mean 'duckdb'"):
        coverage(FRAME, backend="duckbd")
    with pytest.raises(BadInput, match="backend must be 'duckdb', 'spark'.*Got 7"):
        coverage(FRAME, backend=7)


def test_without_ibis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ibis", None)
    with pytest.raises(MissingExtra, match=r"pip install 'placings\[logs\]'"):
        need_ibis("coverage")


def test_the_engine_speaks_utc_and_spills_outside_the_working_folder(folder: Path) -> None:
    with opened(FRAME) as source:
        asked = "SELECT current_setting('TimeZone'), current_setting('temp_directory')"
        zone, spill = source.backend.raw_sql(asked).fetchone()
    assert zone == "UTC"
    assert Path(spill).is_absolute()


def test_without_java_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput, match="^backend='spark' needs Java 17 or later"):
        start_spark()
