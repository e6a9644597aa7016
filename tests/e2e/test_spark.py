"""DuckDB and a real local Spark session give equal answers to the same question."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadFile, BadInput, PlacingsWarning
from placings.data.backends import open_source, start_spark
from placings.feco.sampling import SamplingPlan, plan_errors, sample_events
from placings.feco.score import coverage

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ibis")
pytest.importorskip("pyspark")

if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip(
        "Spark needs Java, and this machine has none (no `java`, no JAVA_HOME)", allow_module_level=True
    )

# sockets and processes that PySpark leaves to the garbage collector are not ours to close
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.slow,  # a Java machine starts, and takes seconds for each question
]

SEARCHES, ROWS = 240, 6


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = start_spark("local[1]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def log() -> pa.Table:
    """Three days around the night when Berlin's clocks go forward, with every way to be missing."""
    rng = np.random.default_rng(0)
    rows = SEARCHES * ROWS
    search = np.repeat(np.arange(SEARCHES), ROWS)
    second = (
        1_711_753_200 + search * 1080
    )  # 2024-03-29T23:00Z = midnight in Berlin, a search every 18 minutes
    clicks = rng.poisson(0.2, rows).astype(np.float32)
    clicks[rng.random(rows) < 0.2] = np.nan
    ctr = rng.normal(size=rows)
    ctr[rng.random(rows) < 0.3] = np.nan
    ctr[:3] = np.inf, -np.inf, -0.0
    quota = np.where(rng.random(rows) < 0.5, 0.1, 0.0).astype(np.float32)
    return pa.table(
        {
            "search": pa.array(search, mask=search == 7),
            "shown": (np.arange(rows) % ROWS + 1).astype(np.int32),
            "ts": pa.array(second * 1_000_000 + 700_000, pa.timestamp("us")),
            "ts_berlin": pa.array(second * 1_000_000 + 700_000, pa.timestamp("us", tz="Europe/Berlin")),
            "region": pa.array(np.array(["eu", "us", "asia"])[search % 3], mask=search % 11 == 0),
            "clicks": pa.array(clicks, mask=rng.random(rows) < 0.2),
            "ctr": pa.array(ctr, mask=rng.random(rows) < 0.1),
            "stock": pa.array(rng.integers(0, 3, rows), mask=rng.random(rows) < 0.3),
            "quota": quota,
            "on_sale": pa.array(rng.random(rows) < 0.3, mask=rng.random(rows) < 0.1),
            "dark": pa.nulls(rows, pa.float64()),
            "typeless": pa.nulls(rows),
            "brand": pa.array(["b"] * rows),
        }
    )


@pytest.fixture(scope="module")
def parquet(log: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("log")
    half = log.num_rows // 2
    pq.write_table(log.slice(0, half), folder / "a.parquet")
    pq.write_table(log.slice(half), folder / "b.parquet")
    return str(folder / "*.parquet")


def ask_both(spark: Any, table: Any, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """The same question to both; the first answer is DuckDB's."""
    answers = []
    for engine in ("duckdb", spark):
        told = "event" in options and "sample" not in options  # rows without an id are left out, and said
        with pytest.warns(PlacingsWarning, match="rows have no event id") if told else nullcontext():
            answers.append(coverage(table, *arguments, backend=engine, **options))
    return answers[0], answers[1]


QUESTIONS: dict[str, dict[str, Any]] = {
    "rows": {},
    "non_null": {"rule": "non_null"},
    "a number between float32 and float64": {"rule": 0.1, "features": ["quota", "clicks"]},
    "mean and median": {"rule": {"clicks": "mean", "ctr": "median", "stock": "mean", "dark": "median"}},
    "true and false": {"features": ["on_sale", "stock"]},
    "events": {"event": "search"},
    "all of an event": {"event": "search", "within": "all", "rule": "non_null"},
    "the first three": {"event": "search", "within": 3, "position": "shown"},
    "rows of events": {"event": "search", "within": "rows"},
    "segments with NULL": {"by": "region"},
    "two segments and positions": {"by": ["region", "shown"], "position": "shown"},
    "days": {"time": "ts"},
    "days of a column with a zone": {"time": "ts_berlin"},
    "days in Berlin": {"time": "ts", "zone": "Europe/Berlin"},
    "hours in Kathmandu": {"time": "ts_berlin", "zone": "Asia/Kathmandu", "window": "6h"},
    "weeks, events, segments": {"event": "search", "time": "ts", "window": "1w", "by": "region"},
    "from and until": {
        "time": "ts_berlin",
        "since": "2024-03-30T12:00",
        "until": "2024-03-31",
        "window": "1h",
    },
    "a sample": {"event": "search", "time": "ts", "sample": SamplingPlan(4, 60, 2, seed=3)},
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_duckdb_and_spark_agree(spark: Any, parquet: str, question: str) -> None:
    ours, theirs = ask_both(spark, parquet, **QUESTIONS[question])
    assert (ours.engine, theirs.engine) == ("duckdb", "pyspark")
    assert ours.features == theirs.features
    assert ours.notes == theirs.notes
    assert ours.thresholds == pytest.approx(theirs.thresholds, rel=1e-12, nan_ok=True)
    pd.testing.assert_frame_equal(ours.to_pandas(), theirs.to_pandas(), check_dtype=False, rtol=1e-12)
    assert ours.to_pandas()["events"].sum() > 0
    assert 0 < ours.to_pandas()["covered"].sum() < ours.to_pandas()["events"].sum()


def test_nan_and_null_are_uncovered_on_spark_too(spark: Any) -> None:
    table = {"x": pa.array([1.0, float("nan"), None, float("inf"), -1.0, 0.0])}
    for rule, share in (("non_zero", 3 / 6), ("non_null", 4 / 6), (0.5, 2 / 6), (-5.0, 4 / 6)):
        for engine in ("duckdb", spark):
            assert coverage(table, rule=rule, backend=engine)["x"] == pytest.approx(share), (rule, engine)


def test_days_begin_at_midnight_of_the_zone_on_both(spark: Any, parquet: str) -> None:
    ours, theirs = ask_both(spark, parquet, "stock", time="ts", zone="Europe/Berlin")
    starts = ["2024-03-29T23:00", "2024-03-30T23:00", "2024-03-31T22:00", "2024-04-01T22:00"]
    for answer in (ours, theirs):
        assert answer.to_pandas()["window"].tolist() == [pd.Timestamp(start) for start in starts]
        # the second day has 23 hours; 80 searches fit into 24
        assert answer.to_pandas()["events"].tolist() == [80 * ROWS, 77 * ROWS, 80 * ROWS, 3 * ROWS]


def test_tables_in_memory_give_what_files_give(spark: Any, log: pa.Table, parquet: str) -> None:
    from_file, _ = ask_both(spark, parquet, by="region")
    frame = log.to_pandas().astype({"search": "Int64"})
    for table in (log, frame):
        ours, theirs = ask_both(spark, table, by="region", ignore=["typeless"])
        pd.testing.assert_frame_equal(ours.to_pandas(), theirs.to_pandas(), check_dtype=False)
    expected = from_file.to_pandas()
    expected = expected[expected["feature"] != "typeless"].reset_index(drop=True)
    pd.testing.assert_frame_equal(ours.to_pandas(), expected, check_dtype=False)


def test_csv_is_read_alike(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("search,x,ts,zoned,dark,brand\n1,0.5,2024-01-01 10:00:00,2024-01-01T23:30:00-02:00,,a\n"
                    "2,,2024-01-01 23:59:59.7,2024-01-01T23:59:59.7+02:00,,\n")  # fmt: skip
    for time, starts in (("ts", ["2024-01-01"]), ("zoned", ["2024-01-01", "2024-01-02"])):
        ours, theirs = ask_both(spark, str(path), time=time, ignore=["search"])
        assert ours.features == theirs.features == ("x", "dark")  # brand has values, so it is text
        assert sorted({str(day)[:10] for day in ours.to_pandas()["window"]}) == starts
        pd.testing.assert_frame_equal(ours.to_pandas(), theirs.to_pandas(), check_dtype=False)


@pytest.mark.parametrize(
    "plan",
    [SamplingPlan(4, 60, 2), SamplingPlan(2, 10, 3, "random", seed=5), SamplingPlan(1, 10, 20, "stratified"),
     SamplingPlan(1, 10, 20, "stratified", strata=("region",))],
    ids=lambda plan: plan.describe(),
)  # fmt: skip
def test_both_engines_draw_the_same_events(spark: Any, parquet: str, plan: SamplingPlan) -> None:
    drawn = []
    for engine in ("duckdb", spark):
        source = open_source(parquet, engine)
        rows = sample_events(source.table, plan, time="ts", event="search", zone="Europe/Berlin")
        drawn.append(source.ask(rows.select("search", "shown")).astype(int))
    ours, theirs = (set(map(tuple, rows.to_numpy())) for rows in drawn)
    assert ours == theirs
    assert 0 < len(ours) < SEARCHES * ROWS
    assert len(ours) == ROWS * len({search for search, _ in ours})  # whole lists


def test_plans_err_alike_on_both(spark: Any, parquet: str) -> None:
    found = [
        plan_errors(
            parquet,
            ["clicks", "stock"],
            time="ts",
            event="search",
            plans=SamplingPlan(4, 60, 2),
            draws=2,
            backend=e,
        )
        for e in ("duckdb", spark)
    ]
    pd.testing.assert_frame_equal(found[0].to_pandas(), found[1].to_pandas())


def test_times_too_fine_for_spark_are_told(spark: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0], "ts": pd.to_datetime(["2024-01-01"]).astype("datetime64[ns]")})
    frame.to_parquet(tmp_path / "fine.parquet")
    assert coverage(tmp_path / "fine.parquet", time="ts")["x"] == 1.0
    with pytest.raises(BadFile, match="fine.parquet.*write microseconds"):
        coverage(tmp_path / "fine.parquet", time="ts", backend=spark)


def test_an_ibis_table_stays_on_its_engine(spark: Any, parquet: str) -> None:
    import ibis

    table = ibis.pyspark.connect(spark).read_parquet(parquet)
    assert coverage(table, "stock").engine == "pyspark"
    assert coverage(table, "stock", backend="spark").engine == "pyspark"
    with pytest.raises(BadInput, match="stays on its backend, pyspark. Got backend='duckdb'"):
        coverage(table, "stock", backend="duckdb")
