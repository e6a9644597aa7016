"""`placings inspect`: what is printed, for people and for machines."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from rich.console import Console
from scipy.sparse import csr_array
from typer.testing import CliRunner

from placings.cli.inspection import (
    arrange_features,
    closing_lines,
    draw_shape,
    flag_feature,
    header_lines,
    inspect,
    inspection_json,
    render_inspection,
    shorten,
)
from placings.data.quality import describe_features
from placings.data.ranking import RankingData

NAN = float("nan")
LONG = "covered query term number whole document"


@pytest.fixture
def data() -> RankingData:
    """Thirty rows: a plain, a skewed, a constant, an absent, a mostly zero, a gappy feature."""
    rows = np.arange(30.0)
    X = np.stack(
        [
            rows,
            np.where(rows == 29, 2.3e8, rows),
            np.full(30, 7.5),
            np.full(30, NAN),
            np.where(rows >= 28, 1.0, 0.0),
            np.where(rows < 3, NAN, -rows),
        ],
        axis=1,
    )
    names = [LONG, "inlinks", "same", "gone", "rare", "gappy [x]"]
    qid = [0] * 19 + [1] * 10 + [2]
    return RankingData.from_arrays(X, [1.0] * 10 + [0.0] * 20, qid, feature_names=names)


def render(data: RankingData, *, width: int | None = None, encoding: str = "utf-8", **options: Any) -> str:
    """What is printed, into a pipe or (with a width) onto a terminal."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    colours: Any = "standard" if width else None
    console = Console(
        file=file, width=width, force_terminal=bool(width), color_system=colours, highlight=False, _environ={}
    )
    render_inspection(data, console, **options)
    file.flush()
    return raw.getvalue().decode(encoding)


def row_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(name))


def test_the_header_counts_rows_queries_labels_and_odd_queries(data: RankingData) -> None:
    lines = header_lines(data)
    assert ("rows", "30") in lines
    assert ("queries", "3") in lines
    assert ("features", "6 (dense)") in lines
    assert ("rows a query", "1 to 19, mean 10.0, median 10") in lines
    assert ("labels", "0     66.67%  " + "█" * 27) in lines  # 40 × 2/3 = 26.7
    assert ("", "1     33.33%  " + "█" * 13) in lines
    assert ("nothing relevant", "2 of 3 queries (66.7%)") in lines
    assert ("one row only", "1 of 3 queries (33.3%)") in lines


def test_fractional_labels_are_a_range(data: RankingData) -> None:
    clicks = data.replace(y=np.arange(30) / 30)
    assert ("labels", "0 to 0.966667, 30 distinct, mean 0.4833") in header_lines(clicks)


def test_a_pipe_gets_every_feature_whole_with_its_flags_in_words(data: RankingData) -> None:
    text = render(data)
    assert "\x1b" not in text
    assert "…" not in text
    assert row_of(text, LONG).split()[-1] not in ("skewed", "constant")
    assert row_of(text, "inlinks").rstrip().endswith("! skewed")
    assert "2.3e8" in row_of(text, "inlinks")
    assert row_of(text, "same").rstrip().endswith("! constant")
    assert row_of(text, "gone").rstrip().endswith("! all missing")
    assert row_of(text, "rare").rstrip().endswith("! skewed, mostly zero")
    assert "gappy [x]" in text
    assert "90.0%" in row_of(text, "gappy")
    assert "10.0%" in row_of(text, "gappy")
    assert "Of 6 features 2 are skewed (skew beyond 3 either way), 1 constant, 2 with missing values." in text
    assert "log1p(x)" in text
    assert "cdf(x)" in text


def test_a_name_wider_than_the_pipe_is_still_whole(data: RankingData) -> None:
    name = "a feature with a name that goes on " * 6
    assert name.strip() in render(data.replace(feature_names=(name.strip(), *data.feature_names[1:])))


def test_a_terminal_sees_the_skewed_ones_in_colour(data: RankingData) -> None:
    text = render(data, width=160)
    assert "\x1b[1;33minlinks" in text
    assert "\x1b[1;33m" + LONG not in text


def test_a_narrow_terminal_drops_columns_and_says_so_but_keeps_range_and_skew(data: RankingData) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", render(data, width=80))
    assert all(len(line) <= 80 for line in text.splitlines() if "Skewed" not in line and "Of 6" not in line)
    assert "…" not in text
    head = next(line for line in text.splitlines() if line.strip().startswith("feature "))
    assert {"min", "max", "skew", "zeros"} <= set(head.split())
    assert "No room for: mean" in text


def test_an_output_that_knows_only_ascii_gets_ascii(data: RankingData) -> None:
    assert "! skewed" in render(data, encoding="ascii")


def test_a_limit_and_an_order_choose_what_is_shown(data: RankingData) -> None:
    text = render(data, sort="skew", limit=1)
    assert "inlinks" in text
    assert LONG not in text
    assert "1 of 6 features are shown" in text
    facts = describe_features(data)
    assert [fact.name for fact in arrange_features(facts, "skew")][-1] == "gone"
    assert [fact.name for fact in arrange_features(facts, "missing")][:2] == ["gone", "gappy [x]"]
    assert next(fact.name for fact in arrange_features(facts, "zeros")) == "rare"
    assert next(fact.name for fact in arrange_features(facts, "name")) == LONG
    assert [fact.name for fact in arrange_features(facts, "order")] == list(data.feature_names)


def test_json_is_full_precision_with_null_for_what_is_not_known(data: RankingData) -> None:
    facts = json.loads(inspection_json(data), parse_constant=pytest.fail)
    assert (facts["rows"], facts["queries"], facts["n_features"], facts["sparse"]) == (30, 3, 6, False)
    assert facts["list_sizes"] == {"min": 1, "median": 10.0, "mean": 10.0, "max": 19}
    assert facts["labels"][1] == {"label": 1.0, "rows": 10, "share": 10 / 30}
    assert facts["queries_with_nothing_relevant"] == 2
    assert facts["queries_with_one_row"] == 1
    by_name = {feature["name"]: feature for feature in facts["features"]}
    assert by_name["gone"]["mean"] is None
    assert by_name["gone"]["flags"] == ["all missing"]
    assert by_name[LONG]["mean"] == 14.5
    assert by_name["inlinks"]["skew"] == describe_features(data)[1].skew
    assert sum(by_name[LONG]["shape"]) == 30


def test_data_without_rows_or_with_sparse_features_are_shown_too() -> None:
    empty = RankingData.from_arrays(np.zeros((0, 2)), [], [])
    assert "Of 2 features 0 are skewed" in render(empty)
    assert json.loads(inspection_json(empty))["list_sizes"]["min"] is None
    sparse = RankingData.from_arrays(csr_array(np.eye(20)), [0] * 20, [1] * 20)
    assert "20 (sparse)" in render(sparse)
    assert flag_feature(describe_features(sparse)[0]) == ["skewed", "mostly zero"]


def test_nothing_to_warn_of_is_one_closing_line() -> None:
    calm = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 0, 1], [1] * 3)
    assert len(closing_lines(describe_features(calm))) == 1


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2.3e8, "2.3e8"),
        (226244459.0, "2.26e8"),
        (0.0192, "0.0192"),
        (0.0, "0"),
        (-0.0, "0"),
        (7.0, "7"),
        (12345.6, "12,346"),
        (999.9, "1,000"),
        (-71.724672, "-71.7"),
        (1e-8, "1e-8"),
        (-1.25e-12, "-1.25e-12"),
        (NAN, "-"),
    ],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert shorten(number) == text


def test_a_shape_tells_an_empty_bin_from_one_with_a_value() -> None:
    assert draw_shape([1000, 1, 0, 0, 0, 0, 0, 500]) == "█▂▁▁▁▁▁▅"
    assert draw_shape([0] * 8) == ""


def test_the_command_reads_a_file_and_prints_only_json_when_asked(tmp_path: Path) -> None:
    file = tmp_path / "train.txt"
    file.write_text("2 qid:1 1:0.5 2:3\n0 qid:1 1:0.1 2:NULL\n1 qid:2 1:0.2 2:1\n")
    app = typer.Typer()
    app.command()(inspect)
    result = CliRunner().invoke(app, [str(file), "--missing", "NULL", "--json", "--no-cache"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["rows"] == 3
    assert facts["features"][1]["missing"] == 1 / 3
    shown = CliRunner().invoke(app, [str(file), "--missing", "NULL", "--sort", "missing", "--no-cache"])
    assert shown.exit_code == 0, shown.output
    assert "rows a query" in shown.stdout
    assert CliRunner().invoke(app, [str(file), "--sort", "colour"]).exit_code == 2


def test_the_module_loads_without_numpy() -> None:
    heavy = "{'numpy', 'numba', 'pyarrow', 'scipy'}"
    code = f"import sys, placings.cli.inspection; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_file_is_named_as_it_is_called(data: RankingData) -> None:
    assert render(data, title="runs:top:[x].txt").startswith("runs:top:[x].txt\n")


def test_hashed_features_that_are_nowhere_are_counted_and_not_listed() -> None:
    X = csr_array(([1.0, 2.0], ([0, 1], [5, 199_999])), shape=(2, 200_000), dtype=np.float32)
    wide = RankingData.from_arrays(X, [0, 1], [1, 1])
    stream = io.StringIO()
    render_inspection(wide, Console(file=stream, width=120))
    assert "199,998 more features are 0 in every row and are not listed." in stream.getvalue()
    told = json.loads(inspection_json(wide))
    assert (told["n_features"], len(told["features"])) == (200_000, 2)
