"""The documentation is true: its examples run, its tables hold, its pages fetch nothing from elsewhere."""

from __future__ import annotations

import contextlib
import doctest
import gzip
import importlib
import io
import os
import pkgutil
import re
import subprocess
import sys
import textwrap
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pytest

import placings
from placings.core.errors import BadFile, EmptyFile, TruncatedFile

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts),
]
FENCE = r"^( *)```{}[ \t]*\n(.*?)^ *```[ \t]*$"
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def find_blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The code blocks of exactly this language (so not `python no-run`) and the lines they begin at."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(FENCE.format(language), text, re.S | re.M)
    return [(text[: block.start()].count("\n") + 1, textwrap.dedent(block[2])) for block in found]


# -- what is shown runs -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if find_blocks(page, "python")], ids=name_of)
def test_the_python_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    for line, source in find_blocks(page, "python"):
        exec(compile("\n" * line + source, str(page), "exec"), names)


@pytest.mark.parametrize("page", [page for page in PAGES if find_blocks(page, "pycon")], ids=name_of)
def test_the_sessions_of_a_page_print_what_they_show(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(source for _, source in find_blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    report: list[str] = []
    assert runner.run(test, out=report.append).failed == 0, "".join(report)


def test_the_readme_has_an_example_that_runs_and_few_blocks_do_not() -> None:
    assert find_blocks(ROOT / "README.md", "python")
    assert sum(len(find_blocks(page, "python no-run")) for page in PAGES) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_a_tutorial_runs_by_its_documented_command_and_prints_what_its_page_shows(
    path: Path, tmp_path: Path
) -> None:
    """Numbers may differ in the third digit, where another BLAS adds up in another order."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "docs").symlink_to(DOCS)
    command = f".venv/bin/python docs/tutorials/{path.name}"
    assert f"```console\n$ {command}\n```" in path.with_suffix(".md").read_text(encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = path.with_suffix(".txt")
    if os.environ.get("PLACINGS_UPDATE") == "1":
        shown.write_text(done.stdout, encoding="utf-8")
    expected = shown.read_text(encoding="utf-8")
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", expected)
    ours, theirs = ([float(number) for number in NUMBER.findall(text)] for text in (done.stdout, expected))
    assert ours == pytest.approx(theirs, abs=0.003)


MODULES = sorted(module.name for module in pkgutil.walk_packages(placings.__path__, "placings."))


@pytest.mark.parametrize("name", ["placings", *MODULES])
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as report:
        failed = doctest.testmod(importlib.import_module(name)).failed
    assert failed == 0, report.getvalue()


# -- what is said of files that are not as they should be is so -----------------------------------------

CUT = gzip.compress("".join(f"1 qid:{n} 1:0.{n}\n" for n in range(1, 2000)).encode())[:2000]
REFUSED = {
    "empty": (b"", EmptyFile),
    "only comments": (b"# nothing\n\n", EmptyFile),
    "truncated gzip": (CUT, TruncatedFile),
    "old Mac line ends": (b"1 qid:1 1:1\r0 qid:1 1:2\r", BadFile),
    "UTF-16": ("1 qid:1 1:1\n".encode("utf-16"), BadFile),
    "negative label": (b"-1 qid:1 1:1\n", BadFile),
    "textual label": (b"good qid:1 1:1\n", BadFile),
    "label NaN": (b"nan qid:1 1:1\n", BadFile),
    "label inf": (b"inf qid:1 1:1\n", BadFile),
    "no qid": (b"1 1:1\n", BadFile),
    "qid in some lines": (b"1 qid:1 1:1\n0 1:2\n", BadFile),
    "two qids": (b"1 qid:1 qid:2 1:1\n", BadFile),
    "qid without a value": (b"1 qid: 1:1\n", BadFile),
    "NULL": (b"1 qid:1 1:NULL\n", BadFile),
    "inf": (b"1 qid:1 1:inf\n", BadFile),
    "beyond float32": (b"1 qid:1 1:1e39\n", BadFile),
    "hexadecimal": (b"1 qid:1 1:0x10\n", BadFile),
    "underscore": (b"1 qid:1 1:1_0\n", BadFile),
    "feature twice": (b"1 qid:1 1:1 1:2\n", BadFile),
    "negative feature id": (b"1 qid:1 -1:1\n", BadFile),
    "feature id that is no number": (b"1 qid:1 abc\n", BadFile),
    "feature id too large": (b"1 qid:1 2147483647:1\n", BadFile),
}
READ = {  # text, options, then X, y, qids as lists
    "gzip without suffix": (gzip.compress(b"1 qid:1 1:2\n"), {}, [[2]], [1], [1]),
    "byte order mark, CRLF": (b"\xef\xbb\xbf1 qid:1 1:2\r\n\r\n0\tqid:1\t1:3", {}, [[2], [3]], [1, 0], [1]),
    "fractional label": (b"0.25 qid:1 1:2\n", {}, [[2]], [0.25], [1]),
    "negative as zero": (b"-1 qid:1 1:2\n", {"negative_labels": "zero"}, [[2]], [0], [1]),
    "negative dropped": (b"-1 qid:1 1:2\n1 qid:1 1:3\n", {"negative_labels": "drop"}, [[3]], [1], [1]),
    "textual qid": (b"1 qid:a 1:2\n0 qid:7 1:3\n", {}, [[2], [3]], [1, 0], ["a", "7"]),
    "leading zeros": (b"1 qid:007 1:2\n", {}, [[2]], [1], ["007"]),
    "groups": (b"1 1:2\n0 1:3\n", {"groups": [1, 1]}, [[2], [3]], [1, 0], [1, 2]),
    "groups win": (b"1 qid:5 1:2\n0 qid:6 1:3\n", {"groups": [2]}, [[2], [3]], [1, 0], [1]),
    "too small": (b"1 qid:1 1:1e-60\n", {}, [[0]], [1], [1]),
    "any order of ids": (b"1 qid:1 2:3 1:2\n", {}, [[2, 3]], [1], [1]),
    "ids from 0": (b"1 qid:1 0:2 1:3\n", {}, [[2, 3]], [1], [1]),
    "no features": (b"1 qid:1\n0 qid:1 2:3\n", {}, [[0, 0], [0, 3]], [1, 0], [1]),
    "fixed width": (b"1 qid:1 1:2\n", {"n_features": 2}, [[2, 0]], [1], [1]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_page_says_is_refused_is(case: str, tmp_path: Path) -> None:
    text, kind = REFUSED[case]
    (tmp_path / "rows.txt").write_bytes(text)
    with pytest.raises(BadFile) as caught:
        placings.read(tmp_path / "rows.txt")
    assert type(caught.value) is kind
    assert "rows.txt" in str(caught.value)


@pytest.mark.parametrize("case", READ)
def test_what_the_page_says_is_read_is(case: str, tmp_path: Path) -> None:
    text, options, X, y, qids = READ[case]
    (tmp_path / "rows.txt").write_bytes(text)
    data = placings.read(tmp_path / "rows.txt", **options)
    assert (data.X.tolist(), data.y.tolist(), data.qids.tolist()) == (X, y, qids)


def test_missing_values_and_comments_are_read_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(
        "1 qid:1 1:nan 2:NULL 3:-inf 4:1e39 #docid = A inc = 1\n0 qid:1 4:1 # B\n0 qid:1 # two words\n"
    )
    data = placings.read(tmp_path / "rows.txt", missing="NULL", non_finite="missing")
    assert [value != value for value in data.X[0].tolist()] == [True] * 4
    assert data.items is not None
    assert data.items.tolist() == ["A", "B", ""]


def test_a_qid_that_comes_back_is_joined_and_said(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1 qid:1 1:1\n0 qid:2 1:2\n2 qid:1 1:3\n")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = placings.read(tmp_path / "rows.txt")
    assert data.X[:, 0].tolist() == [1, 3, 2]
    assert [warning.category.__name__ for warning in said] == ["Joined"]
    with pytest.raises(BadFile, match="rows.txt:3: qid 1 comes back"):
        placings.read(tmp_path / "rows.txt", repeated_qid="error")


# -- the pages themselves -------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere_and_images_are_our_own(page: Path) -> None:
    prose = re.sub(FENCE.format("[^\n]*"), "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for image, target in re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", prose):
        if target.startswith("http"):
            assert not image, f"{target} would be fetched from elsewhere"
        elif not target.startswith("#"):
            assert (page.parent / target.split("#")[0]).exists(), target


def test_every_page_of_the_docs_is_in_the_table_of_contents() -> None:
    listed = (DOCS / "index.md").read_text(encoding="utf-8")
    for page in PAGES:
        if page.is_relative_to(DOCS) and page.name != "index.md":
            assert str(page.relative_to(DOCS).with_suffix("")) in listed


class Fetched(HTMLParser):
    """What a browser loads by itself for a page; links to follow are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.found += [given[name] for name in ("src", "srcset", "poster", "data") if name in given]
        if tag in ("link", "image", "use"):
            self.found += [given[name] for name in ("href", "xlink:href") if name in given]
        self.found += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


def find_outside(folder: Path) -> list[str]:
    """Scripts, styles, fonts and images that the pages and style sheets of a folder load from elsewhere."""
    outside = []
    for page in folder.rglob("*.html"):
        parser = Fetched()
        text = page.read_text(encoding="utf-8")
        parser.feed(text)
        inline = "".join(re.findall(r"<style.*?</style>", text, re.S))
        loaded = parser.found + re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s]+)", inline)
        outside += [f"{page.name}: {target}" for target in loaded if re.match(r"\s*(https?:)?//", target)]
    for sheet in folder.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s]+)", text):
            if re.match(r"(https?:)?//", target):
                outside.append(f"{sheet.name}: {target}")
    return outside


def test_what_a_page_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<link href='https://fonts.example/a.css'><script src='//cdn.example/b.js'></script>"
        "<a href='https://example.org'>fine</a><img src='own.png'><style>@import 'https://x.example/c';</style>"
    )
    (tmp_path / "a.css").write_text(
        "/* url(https://no.example) */ @font-face {src: url('https://f.example/w')}"
    )
    assert len(find_outside(tmp_path)) == 4


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    folders = ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "html")]
    built = subprocess.run([*command, *folders], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "html" / "index.html").exists()
    assert find_outside(tmp_path / "html") == []
