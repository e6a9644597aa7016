"""Text tables in the columns of a terminal: whole numbers, names that can be told apart, nothing too wide."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from placings.core import Cell, Grid, find_width, fit_width, render_grid, shorten_middle
from placings.core.narrow_tables import wrap_note

NAMES = ("click_through_rate_of_the_last_28_days", "click_through_rate_of_the_last_56_days", "price")


def make_grid(columns: int = 3, names: tuple[str, ...] = NAMES, left: int = 1) -> Grid:
    header = ("feature", *(f"mean of ndcg@{number}" for number in range(columns)))
    rows = tuple(
        (Cell(name), *(Cell(f"0.{n}{place:03}", "†") for place in range(columns)))
        for n, name in enumerate(names)
    )
    return Grid(header, rows, ("A note that is much longer than a narrow terminal has room for.",), left)


def test_outside_a_width_a_table_is_as_wide_as_it_is() -> None:
    assert find_width() is None
    assert max(map(len, render_grid(make_grid(12)).splitlines())) > 200


@pytest.mark.parametrize("width", [24, 40, 60, 80])
@pytest.mark.parametrize("columns", [1, 3, 12])
def test_no_line_is_wider_and_no_number_is_cut(width: int, columns: int) -> None:
    grid = make_grid(columns)
    with fit_width(width):
        text = render_grid(grid)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for row in grid.rows:
        for cell in row[1:]:
            assert f"{cell.text}†" in text


def test_a_table_that_fits_is_the_same() -> None:
    with fit_width(200):
        fitted = render_grid(make_grid())
    assert fitted == render_grid(make_grid())


def test_names_lose_their_middle_unless_two_would_look_alike() -> None:
    with fit_width(44):
        apart = render_grid(make_grid(1))
        alike = render_grid(
            make_grid(1, ("a_long_name_1_of_some_thing_else", "a_long_name_2_of_some_thing_else"))
        )
    assert "click_thr" in apart
    assert "…" in apart
    assert "…" not in alike
    assert alike.replace("\n", "").count("a_long_name_") == 2


def test_columns_that_have_no_room_go_below_with_the_names_repeated() -> None:
    with fit_width(50):
        lines = render_grid(make_grid(6)).splitlines()
    assert sum(line.startswith("feature") for line in lines) == 2
    assert sum(line.startswith("price") for line in lines) == 2


def test_a_row_becomes_lines_where_a_column_alone_is_too_wide() -> None:
    grid = Grid(("name", "why"), ((Cell("a"), Cell("a sentence of more than twenty letters")),))
    with fit_width(20):
        text = render_grid(grid)
    assert text.splitlines()[1:3] == ["a", "  why: a sentence of"]


def test_sparklines_are_not_shortened() -> None:
    grid = Grid(("feature", "days"), ((Cell("a_feature_with_a_long_name"), Cell("▁▂▃▄▅▆▇█" * 3)),), left=2)
    with fit_width(42):
        assert "▁▂▃▄▅▆▇█" * 3 in render_grid(grid)


def test_other_formats_have_no_width() -> None:
    with fit_width(20):
        narrow = [render_grid(make_grid(), format) for format in ("markdown", "latex", "html")]
    assert narrow == [render_grid(make_grid(), format) for format in ("markdown", "latex", "html")]


@given(st.text(max_size=60), st.integers(3, 40))
def test_a_shortened_text_has_at_most_its_columns(text: str, width: int) -> None:
    short = shorten_middle(text, width)
    assert cell_len(short) <= width
    assert short == text or "…" in short


def test_a_note_is_wrapped_and_a_path_stays_whole() -> None:
    assert wrap_note("see /a/path/that/is/longer/than/this for more", 12) == [
        "see", "/a/path/that/is/longer/than/this", "for more",
    ]  # fmt: skip
    assert wrap_note("", 12) == [""]
    assert wrap_note("as it is", None) == ["as it is"]


def test_a_column_without_heading_or_text_takes_no_room() -> None:
    grid = Grid(("name", "", "mean"), ((Cell("a_name_that_is_long"), Cell(""), Cell("0.5")),))
    with fit_width(22):
        assert render_grid(grid).splitlines()[2].split() == ["a_name_…s_long", "0.5"]
