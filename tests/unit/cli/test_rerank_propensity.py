"""`placings rerank fit --propensity`: a curve from a file, or the log's own column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import placings as pg
from placings.cli.main import app
from placings.core.errors import BadFile, BadInput
from placings.simulate import make_shop_actions, make_shop_log

pytest.importorskip("pandas")
CURVE = {
    "ranks": [1, 2, 3], "values": [1.0, 0.5, 0.3], "low": [1.0, 0.4, 0.2], "high": [1.0, 0.6, 0.4],
    "method": "swaps", "rests_on": "randomisation", "says": "", "searches": 9, "clicks": 5,
}  # fmt: skip


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    made = make_shop_actions(make_shop_log(10, searches=40, random_state=0))
    pg.join_logs(made.searches, made.actions).write(folder / "rows.parquet")
    (folder / "curve.json").write_text(json.dumps(CURVE))
    return folder


def fit(home: Path, out: Path, *words: object) -> Any:
    return call("rerank", "fit", home / "rows.parquet", "--out", out, "--ranker", "ridge", *words)


def test_what_the_propensities_did_is_told_and_kept(home: Path, tmp_path: Path) -> None:
    told = fit(home, tmp_path / "kept", "--propensity", home / "curve.json")
    assert told.exit_code == 0, told.output
    assert "propensities rest on randomisation" in told.stdout
    assert "dcg@10:ips over" in told.stdout
    kept = pg.load(tmp_path / "kept").debias_
    facts = json.loads(fit(home, tmp_path / "again", "--propensity", home / "curve.json", "--json").stdout)[
        "debias"
    ]
    assert facts == kept
    assert facts["method"] == "swaps"


def test_too_few_clicks_to_weigh_are_told(tmp_path: Path) -> None:
    made = make_shop_actions(make_shop_log(10, searches=4, random_state=0))
    pg.join_logs(made.searches, made.actions).write(tmp_path / "rows.parquet")
    (tmp_path / "curve.json").write_text(json.dumps(CURVE))
    told = fit(tmp_path, tmp_path / "kept", "--propensity", tmp_path / "curve.json")
    assert told.exit_code == 0, told.output
    assert "are too few to be weighed by their propensity (300 are needed)" in told.stdout
    facts = pg.load(tmp_path / "kept").debias_
    assert facts is not None
    assert (facts["chosen"], facts["power"]) == ("naive", 0.0)


def test_without_the_option_nothing_of_it_is_told(home: Path, tmp_path: Path) -> None:
    plain = fit(home, tmp_path / "plain", "--json")
    assert "debias" not in json.loads(plain.stdout)
    assert pg.load(tmp_path / "plain").debias_ is None


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        ('{"ranks": [1]}', BadFile, "no saved curve of propensities.*placings log propensity"),
        ("[1, 2", BadFile, "is not JSON"),
        (None, BadFile, "curve.json"),
    ],
)
def test_a_file_that_is_no_curve_is_refused_before_the_log_is_read(
    tmp_path: Path, content: str | None, kind: type[Exception], words: str
) -> None:
    path = tmp_path / "curve.json"
    if content is not None:
        path.write_text(content)
    result = call("rerank", "fit", tmp_path / "none.parquet", "--out", tmp_path / "out", "--propensity", path)
    assert result.exit_code != 0
    with pytest.raises(kind, match=words):
        raise result.exception


def test_the_logs_own_column_must_be_there(home: Path, tmp_path: Path) -> None:
    result = fit(home, tmp_path / "out", "--propensity", "log")
    assert isinstance(result.exception, BadInput)
    assert "needs a column propensity" in str(result.exception)
