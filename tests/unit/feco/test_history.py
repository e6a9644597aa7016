"""A store kept up to date: nothing twice, nothing lost, late events counted, a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import placings as pg
from placings.core.errors import BadFile, BadInput
from placings.feco.history import open_history, update_history

DAYS = 4


def make_log(days: int = DAYS, *, share: float = 0.5) -> pd.DataFrame:
    """40 events a day in two regions; `share` of them have a price."""
    number = np.arange(40 * days)
    return pd.DataFrame(
        {
            "id": number,
            "ts": pd.Timestamp("2024-05-01") + pd.to_timedelta(number * 2160, unit="s"),
            "region": np.where(number % 2, "north", "south"),
            "price": (number * 37 % 100 < 100 * share).astype(float),
        }
    )


def update(path: Path, log: Any, **options: Any) -> Any:
    return update_history(path, log, **{"time": "ts", "event": "id", "by": "region", **options})


def test_day_by_day_gives_what_one_pass_gives(tmp_path: Path) -> None:
    log = make_log()
    done = update(tmp_path / "store", log)
    assert [f"{day:%m-%d}" for day in done.computed] == ["05-01", "05-02", "05-03", "05-04"]
    kept = open_history(tmp_path / "store").read()
    whole = pg.coverage(log, event="id", by="region", time="ts").to_pandas()
    pd.testing.assert_frame_equal(kept, whole, check_dtype=False)


def test_running_twice_changes_nothing(tmp_path: Path) -> None:
    log = make_log()
    update(tmp_path, log)
    before = open_history(tmp_path).read()
    again = update(tmp_path, log)
    assert (again.computed, again.skipped, again.written) == ((), DAYS, 0)
    pd.testing.assert_frame_equal(open_history(tmp_path).read(), before)


def test_young_days_are_computed_again_and_old_ones_stay(tmp_path: Path) -> None:
    early = make_log().query("ts < '2024-05-04'")
    update(tmp_path, early, watermark="2024-05-04", late="2d")
    late = make_log(share=0.9)  # all days have more now, but the first is final
    done = update(tmp_path, late, watermark="2024-05-05", late="2d")
    assert [day.day for day in done.computed] == [2, 3, 4]  # 1 May was computed two days after its end
    shares = open_history(tmp_path).read().groupby("window")["covered"].sum().tolist()
    expected = [make_log(share=share)["price"].groupby(make_log()["ts"].dt.day).sum() for share in (0.5, 0.9)]
    assert shares == [expected[0][1], expected[1][2], expected[1][3], expected[1][4]]


def test_a_backfill_replaces_the_days_it_names_and_no_other(tmp_path: Path) -> None:
    update(tmp_path, make_log())
    done = update(tmp_path, make_log(share=1.0), since="2024-05-02", until="2024-05-03")
    assert [day.day for day in done.computed] == [2]
    assert done.replaced == done.written == 2
    shares = open_history(tmp_path).read().groupby("window")["coverage"].mean()
    assert shares.iloc[1] == 1.0
    assert shares.iloc[0] < 1.0
    assert shares.iloc[2] < 1.0


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    def stop(day: Any, rows: int) -> None:
        if day.day == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(tmp_path, make_log(), on_day=stop)
    done = update(tmp_path, make_log())
    assert [day.day for day in done.computed] == [3, 4]
    assert done.skipped == 2
    assert len(open_history(tmp_path).read()) == DAYS * 2


def test_an_unfinished_day_is_kept_but_not_read_until_it_is_finished(tmp_path: Path) -> None:
    update(tmp_path, make_log(), watermark="2024-05-04T12:00")
    history = open_history(tmp_path)
    assert history.read()["window"].max() == pd.Timestamp("2024-05-03")
    assert history.read(unfinished=True)["window"].max() == pd.Timestamp("2024-05-04")
    update(tmp_path, make_log(), watermark="2024-05-05")
    assert history.read()["window"].max() == pd.Timestamp("2024-05-04")


def test_a_slow_old_run_does_not_undo_a_newer_one(tmp_path: Path) -> None:
    update(tmp_path, make_log(share=0.9), watermark="2024-05-05")
    newer = open_history(tmp_path).read()
    done = update(
        tmp_path, make_log(share=0.5), watermark="2024-05-04", since="2024-05-01", until="2024-05-04"
    )
    assert (done.written, done.kept) == (0, 6)
    pd.testing.assert_frame_equal(open_history(tmp_path).read(), newer)


def test_days_begin_where_the_zone_says_and_hours_are_kept_by_the_day(tmp_path: Path) -> None:
    log = make_log()
    update(tmp_path / "zone", log, zone="Europe/Berlin")
    whole = pg.coverage(log, event="id", by="region", time="ts", zone="Europe/Berlin").to_pandas()
    kept = open_history(tmp_path / "zone").read()
    pd.testing.assert_frame_equal(kept, whole, check_dtype=False)
    done = update(tmp_path / "hours", log, window="6h")
    assert len(done.computed) == DAYS
    assert open_history(tmp_path / "hours").read()["window"].nunique() == 4 * DAYS


def test_a_folder_counts_in_one_way(tmp_path: Path) -> None:
    update(tmp_path / "store", make_log())
    with pytest.raises(BadInput, match="was made with event='id'. Got None"):
        update(tmp_path / "store", make_log(), event=None)
    with pytest.raises(BadInput, match="rules that mean the same every day"):
        update(tmp_path / "other", make_log(), rule="median")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    with pytest.raises(BadFile, match="exists and is not a coverage store"):
        update(tmp_path / "full", make_log())
    with pytest.raises(BadFile, match="is not a coverage store. Make one"):
        open_history(tmp_path / "nowhere")


def test_features_are_those_of_the_first_run(tmp_path: Path) -> None:
    update(tmp_path, make_log())
    wider = make_log(5).assign(rating=1.0)
    update(tmp_path, wider)
    assert open_history(tmp_path).read()["feature"].unique().tolist() == ["price"]


def test_a_feature_that_vanished_is_kept_as_covered_nowhere(tmp_path: Path) -> None:
    """Else the night's run would fail, and nothing would raise an alert."""
    update(tmp_path, make_log(5))
    done = update(tmp_path, make_log(6).drop(columns="price").assign(rating=1.0))
    assert any("covered nowhere: 'price'" in note for note in done.notes)
    last = open_history(tmp_path).read(unfinished=True).sort_values("window").iloc[-1]
    assert (last["feature"], last["coverage"]) == ("price", 0.0)


def test_a_damaged_history_is_told(tmp_path: Path) -> None:
    update(tmp_path, make_log())
    file = tmp_path / "history.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "version": 9}))
    with pytest.raises(BadFile, match="has version 9"):
        open_history(tmp_path)
    file.write_text("{")
    with pytest.raises(BadFile, match="cannot be read"):
        open_history(tmp_path)


def test_a_log_without_times_has_no_day(tmp_path: Path) -> None:
    empty = make_log().head(0)
    with pytest.raises(BadInput, match="no row with a time"):
        update(tmp_path, empty)
