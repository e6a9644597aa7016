"""DuckDB and a real local Spark session join a broken log to the same rows and the same report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.data.backends import start_spark
from placings.logs.joins import join_logs

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
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::UserWarning"
    ),
]

START = datetime(2024, 5, 1, 8)
WORDS = ["Müllerstraße", "hauptbahnhof", "ΟΔΟΣ", "İstanbul  Cd", "post"]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    session = start_spark("local[1]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def logs() -> dict[str, list[dict[str, Any]]]:
    """Sessions of growing texts with typos, and every way to be broken."""
    rng = np.random.default_rng(0)
    searches: list[dict[str, Any]] = []
    actions: list[dict[str, Any]] = []
    for number in range(160):
        session, step = divmod(number, 4)
        time = START + timedelta(seconds=60 * session + 4 * step, microseconds=int(rng.integers(0, 10)))
        word = WORDS[session % len(WORDS)]
        text = (
            word[: 2 + 3 * step]
            if rng.random() < 0.8
            else word[: 2 + 3 * step].swapcase().replace("h", "n", 1)
        )
        shown = [
            {"item_id": f"i{item}", "position": float(place), "score": float(np.round(rng.random(), 2)),
             "name": f"n{item % 3}", "price": None if rng.random() < 0.2 else float(item)}
            for place, item in enumerate(rng.integers(0, 12, 6), 1)
        ]  # fmt: skip
        for each in shown:
            draw = rng.random()
            if draw < 0.03:
                each["item_id"] = None
            elif draw < 0.1:
                each["position"] = [None, 0.0, 1.5, float("nan")][int(rng.integers(0, 4))]
        search = {
            "search_id": f"s{number:03}" if rng.random() > 0.04 else None,
            "session_id": f"u{session}" if rng.random() > 0.1 else None,
            "time": time if rng.random() > 0.03 else None, "query": text if rng.random() > 0.03 else None,
            "focus_lat": 48.5 if rng.random() < 0.5 else None, "focus_lon": 8.0, "target": "origin",
            "platform": "web", "surface": None, "campaign": f"c{number % 3}", "results": shown,
        }  # fmt: skip
        searches.append(search)
        if rng.random() < 0.1:
            later = timedelta(seconds=int(rng.integers(0, 2)) * 7)
            searches.append({**search, "time": time + later, "results": shown[::-1][:4]})
        for _ in range(int(rng.integers(0, 3))):
            item = shown[int(rng.integers(0, 6))]["item_id"] if rng.random() < 0.85 else "i99"
            action = {
                "search_id": f"s{number:03}" if rng.random() > 0.05 else "nobody's",
                "item_id": item,
                "time": None
                if rng.random() < 0.05
                else time + timedelta(seconds=float(rng.choice([1, 5, 3600, 3601, -3, -60]))),
                "action": str(rng.choice(["click", "cart", "purchase", "hover"])),
            }
            actions += [action] * (1 + int(rng.random() < 0.1))
    truth = [{"search_id": f"s{n:03}", "target_id": f"i{n % 12}", "kind": "prefix"} for n in range(0, 160, 2)]
    snapshots = [
        {"item_id": f"i{n % 12}", "time": START + timedelta(seconds=int(rng.integers(-50, 3000))), "stock": n}
        for n in range(90)
    ]
    return {"searches": searches, "actions": actions, "truth": truth, "snapshots": snapshots * 2}


@pytest.fixture(scope="module")
def files(logs: dict[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("logs")
    for name, log in logs.items():
        table = pa.Table.from_pylist(log)
        kinds = [pa.field(f.name, pa.timestamp("us") if f.name == "time" else f.type) for f in table.schema]
        kinds = [pa.field(f.name, pa.string()) if f.name == "surface" else f for f in kinds]
        pq.write_table(table.cast(pa.schema(kinds)), folder / f"{name}.parquet")
    return {name: folder / f"{name}.parquet" for name in logs}


def compare(spark: Any, *arguments: Any, **options: Any) -> Any:
    """Join on both; rows, kept-apart searches and reports must be equal. Gives DuckDB's report."""
    found = [join_logs(*arguments, backend=engine, **options) for engine in ("duckdb", spark)]
    pd.testing.assert_frame_equal(found[0].rows, found[1].rows)
    pd.testing.assert_frame_equal(found[0].unsuccessful, found[1].unsuccessful)
    reports = [joined.report.to_dict() for joined in found]
    for report in reports:
        report["settings"].pop("engine")
    assert reports[0] == reports[1]
    assert reports[0]["adds_up"]
    assert len(found[0].rows) > 50
    return found


def test_a_broken_nested_log_joins_alike_with_snapshots_and_truth(
    spark: Any, files: dict[str, Path], tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    options = {"unsuccessful": "negatives", "snapshots": files["snapshots"], "truth": files["truth"]}
    on_duckdb, on_spark = compare(spark, files["searches"], files["actions"], **options)
    report = on_duckdb.report
    for part, never in (
        ("searches", {"cut"}),
        ("items", {"apart"}),
        ("actions", {"cut"}),
        ("outcomes", set()),
    ):
        counts = getattr(report, part)
        assert {name for name, count in counts.items() if not count} == never, part
    assert report.notes["missing_positions"] > 0
    on_duckdb.write(tmp_path / "duckdb.parquet")
    on_spark.write(tmp_path / "spark.parquet")
    assert (tmp_path / "spark.parquet").is_dir()
    written = [pq.read_table(tmp_path / f"{name}.parquet").to_pandas() for name in ("duckdb", "spark")]
    pd.testing.assert_frame_equal(written[0], written[1])
    pd.testing.assert_frame_equal(written[0].astype({"time": "datetime64[us]"}), on_duckdb.rows)


def test_a_flat_log_in_memory_joins_alike_by_query(spark: Any, logs: dict[str, list[dict[str, Any]]]) -> None:
    flat = [
        {**{name: value for name, value in search.items() if name not in ("results", "surface")}, **item}
        for search in logs["searches"]
        for item in search["results"]
    ]
    compare(spark, pa.Table.from_pylist(flat), pa.Table.from_pylist(logs["actions"]), group="query")


def test_a_click_log_is_read_and_cut_alike_on_spark(
    spark: Any, files: dict[str, Path], tmp_path: Path
) -> None:
    with pg.join_logs(files["searches"], files["actions"], unsuccessful="negatives") as joined:
        rows = joined.rows.assign(search_id=[name.removeprefix("s") for name in joined.rows["search_id"]])
    log = pg.ClickLog(rows)  # ids of digits, some sessions unknown
    log.write(tmp_path / "rows.parquet")
    rows.drop(columns=["chain_last", "successful"]).to_csv(tmp_path / "rows.csv", index=False)
    with pg.ClickLog.read(tmp_path / "rows.csv", backend=spark) as texts:
        assert texts.rows["search_id"].tolist() == log.rows["search_id"].tolist()  # "003" stays text
    with pg.ClickLog.read(tmp_path / "rows.parquet", backend=spark) as on_spark:
        assert (len(on_spark), on_spark.n_searches) == (len(log), log.n_searches)
        pd.testing.assert_frame_equal(on_spark.rows, log.rows)
    for by in ("time", "session", "search"):
        with pg.ClickLog.read(tmp_path / "rows.parquet", backend=spark) as on_spark:
            for part, same in zip(on_spark.split(0.7, 0.3, by=by), log.split(0.7, 0.3, by=by), strict=True):
                pd.testing.assert_frame_equal(part.rows, same.rows)
    with pg.ClickLog.read(tmp_path / "rows.parquet", backend=spark) as on_spark:
        on_spark.split(0.7, 0.3)[0].write(tmp_path / "part.parquet")
    with pg.ClickLog.read(tmp_path / "part.parquet") as again:  # a folder of files
        pd.testing.assert_frame_equal(again.rows, log.split(0.7, 0.3)[0].rows)
