"""Tables in every format: escaped, with their notes, aligned."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from placings.core.errors import UnknownName
from placings.core.tables import (
    Cell,
    Grid,
    escape_latex,
    format_difference,
    format_interval,
    format_mean,
    format_number,
    format_p,
    render_grid,
    write_json,
)
from placings.data.ranking import RankingData
from placings.evaluation.comparison import compare

NASTY = r"<b>A&B</b> 50% f_1 $x$ #1 {\a} ~^ | `c` *d*"


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(60), 5)
    labels = np.where(qid == 0, 0, rng.integers(0, 3, 300))  # of the first query nothing is relevant
    data = RankingData.from_arrays(rng.random((300, 1)), labels, qid)
    methods = {NASTY: -data.y, "new": data.y}
    return compare(methods, data, ["ndcg@5"], baseline=NASTY, slices="list_size")


def test_latex_is_escaped_marked_and_closed(result) -> None:
    text = result.table("latex")
    assert r"\textless{}b\textgreater{}A\&B\textless{}/b\textgreater{} 50\% f\_1 \$x\$ \#1" in text
    assert r"\{\textbackslash{}a\} \textasciitilde{}\textasciicircum{} \textbar{}" in text
    assert r"\textbf{1.0000}$^{\dagger}$ \\" in text
    for pair in ("table", "tabular"):
        assert text.count(rf"\begin{{{pair}}}") == text.count(rf"\end{{{pair}}}") == 1
    assert r"\toprule" in text
    assert r"\caption{Means over" in text
    body = re.sub(r"\\[a-z]+\{|\\.", "", text)
    assert "%" not in body.replace("% \\usepackage", "").replace("% ", "", 1)


def test_html_is_escaped_and_well_formed(result) -> None:
    open_tags: list[str] = []
    seen: list[str] = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag: str, attributes: object) -> None:
            open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

        def handle_data(self, text: str) -> None:
            seen.append(text)

    Checker(convert_charrefs=True).feed(result.report("html"))
    assert open_tags == []
    assert NASTY in seen
    assert "<b>A" not in result.table("html")
    assert "<b>1.0000</b><sup>†</sup>" in result.table("html")


def test_markdown_keeps_its_columns_whatever_the_names(result) -> None:
    lines = [line for line in result.table("markdown").splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 3 for line in lines)
    assert r"\|" in lines[2]
    assert "&lt;b&gt;" in lines[2]
    assert "**1.0000**†" in lines[3]


def test_text_is_aligned_also_with_wide_letters() -> None:
    rows = ((Cell("日本語"), Cell("0.5", "†‡", True)), (Cell("x"), Cell("12.25")), (Cell("y"), Cell("-")))
    lines = render_grid(Grid(("method", "mrr"), rows)).splitlines()
    ends = [cell_len(lines[n][: lines[n].rindex(last) + 1]) for n, last in [(2, "5"), (3, "5"), (4, "-")]]
    assert len(set(ends)) == 1  # numbers end at one place, marks hang out
    assert lines[2].endswith("0.5†‡*")


@pytest.mark.parametrize("format", ["text", "markdown", "latex", "html"])
def test_every_format_carries_the_rule_the_counts_and_the_test(result, format: str) -> None:
    text = result.table(format)
    for part in ("of 60 queries", "nothing relevant", "Holm over 1 method", "significantly better", "seed 0"):
        assert part in text
    assert "0.05" in text
    assert "of 60 queries" in result.difference_table(format)
    assert "of 60 queries" in result.slice_table(format)


def test_json_is_full_precision_and_complete(result) -> None:
    facts = json.loads(result.table("json"))
    assert facts == json.loads(result.report("json"))
    assert facts["methods"]["new"]["ndcg@5"]["mean"] == result["new"]["ndcg@5"]
    assert facts["methods"][NASTY]["ndcg@5"]["low"] == result.intervals[NASTY]["ndcg@5"][0]
    assert facts["differences"][0]["p_randomisation"] == result.differences[0].p_randomisation
    assert facts["settings"]["seeds"] == {NASTY: 1, "new": 1}
    assert facts["settings"]["folds"] == 1
    assert facts["settings"]["alpha"] == 0.05
    assert facts["counts"]["queries"] == 60
    assert facts["slices"][0]["by"] == "list_size"


def test_json_has_null_for_what_it_cannot_say() -> None:
    assert json.loads(write_json({"a": np.nan, "b": [np.inf, np.float64(1.5)], 3: np.int64(2)})) == {
        "a": None, "b": [None, 1.5], "3": 2,
    }  # fmt: skip


def test_numbers_in_print() -> None:
    assert format_mean(0.12344) == "0.1234"
    assert (format_mean(np.nan), format_mean(1234.56)) == ("-", "1,234.6")
    assert (format_difference(-0.05), format_difference(0.05)) == ("−0.0500", "+0.0500")
    assert (format_p(0.0001), format_p(0.05), format_p(np.nan)) == ("<0.001", "0.050", "-")
    assert format_interval(0.1, 0.2) == "[0.1000, 0.2000]"
    assert format_interval(np.nan, np.nan) == "-"
    assert escape_latex("a\nb") == "a b"


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean 'latex'"):
        render_grid(Grid(("a",), ()), "latx")


def test_intervals_stand_beside_the_means_when_asked(result) -> None:
    low, high = result.intervals[NASTY]["ndcg@5"]
    assert f"[{low:.4f}, {high:.4f}]" in result.table(intervals=True)
    assert "[" not in result.table().splitlines()[2]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (2250.0, 3, "2,250"),
        (999.96, 3, "1,000"),
        (0.0425, 3, "0.0425"),
        (123456.7, 4, "123,457"),
        (-0.5, 4, "−0.5"),
        (0.0, 4, "0"),
        (1e-7, 4, "1e-07"),
        (float("nan"), 4, "-"),
        (float("-inf"), 4, "−inf"),
    ],
)
def test_a_number_for_people_has_no_exponent_unless_it_is_tiny(value: float, digits: int, text: str) -> None:
    assert format_number(value, digits) == text


@given(st.floats(1e-4, 1e15), st.integers(2, 8))
def test_a_number_for_people_is_the_number(value: float, digits: int) -> None:
    """To half of its last digit that counts; whole numbers of more digits are written out."""
    text = format_number(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))
