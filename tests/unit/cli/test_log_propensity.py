"""`placings log propensity`: the first line says what carries the table; files on request; refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from terminal import call_placings

from placings.logs import PropensityCurve


def write_rows(path: Path, *, swaps: bool = True, searches: int = 400) -> Path:
    """Lists of three, in half of which two neighbours are swapped; clicks fall with the rank."""
    rng = np.random.default_rng(0)
    upper = (
        np.where(rng.random(searches) < 0.5, rng.integers(1, 3, searches), 0)
        if swaps
        else np.zeros(searches, int)
    )
    frames = []
    for number, pair in enumerate(upper):
        items, chance = ["a", "b", "c"], [0.75, 0.5, 0.75]
        if pair:
            items[pair - 1], items[pair] = items[pair], items[pair - 1]
            chance[pair - 1] = chance[pair] = 0.25
        frames.append(
            pd.DataFrame(
                {
                    "search_id": f"s{number}", "query": "haus", "item_id": items, "position": [1, 2, 3],
                    "label": (rng.random(3) < np.array([0.6, 0.3, 0.2])).astype(float),
                    **({"shown_probability": chance, "swapped": pair} if swaps else {}),
                }
            )
        )  # fmt: skip
    pd.concat(frames, ignore_index=True).to_parquet(path)
    return path


def test_the_first_line_says_what_carries_the_numbers(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.parquet")
    done = call_placings("log", "propensity", rows)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith(
        "How often ranks 1–3 are looked at, relative to rank 1, carried by randomisation: in "
    )
    assert [line.split()[0] for line in rest[2:5]] == ["1", "2", "3"]
    assert done.stderr == ""


def test_curve_picture_and_rows_are_written(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.parquet")
    curve, plot, added = tmp_path / "curve.json", tmp_path / "curve.png", tmp_path / "with.parquet"
    done = call_placings(
        "log", "propensity", rows, "--method", "randomised", "--depth", "3", "--out", curve, "--plot", plot,
        "--add-to", added, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == json.loads(curve.read_text())
    found = PropensityCurve.from_state(told)
    assert (found.method, found.ranks.tolist()) == ("randomised", [1, 2, 3])
    assert plot.read_bytes().startswith(b"\x89PNG")
    kept = pd.read_parquet(added)
    assert kept["propensity"].tolist() == pytest.approx(found.at(kept["position"]).tolist())
    assert "curve.json is written" in done.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--method", "randomised"], "--method randomised needs --depth"),
        (["--method", "swaps", "--features", "price"], "--features is for --method em and two-tower"),
        (["--out", "curve.csv"], "--out must end in .json"),
        (["--plot", "curve.gif"], "--plot must end in .png or .svg"),
        (["--add-to", "nowhere/rows.parquet"], "the folder"),
        (["--by", ","], "--by must name at least one column"),
    ],
)
def test_options_are_checked_before_anything_is_read(tmp_path: Path, words: list[str], problem: str) -> None:
    done = call_placings("log", "propensity", tmp_path / "missing.parquet", *words, cwd=tmp_path)
    assert done.returncode != 0
    assert problem in done.stderr
    assert "missing.parquet" not in done.stderr


def test_a_log_of_one_order_is_refused_with_what_to_log(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.parquet", swaps=False, searches=50)
    done = call_placings("log", "propensity", rows)
    assert done.returncode != 0
    assert "stood at one rank only" in done.stderr
    assert "placings serve --explore 0.05" in done.stderr
