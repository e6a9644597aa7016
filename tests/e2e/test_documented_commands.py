"""Every command that the documentation shows is run as it is written, over small files of the same names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from documented_files import make_files
from typer.main import get_command

from placings.cli.main import app
from placings.core import set_quiet

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts),
]
TIMEOUT = 300

# What no test can run here, and why. A line that leaves the documentation must leave this list.
NOT_RUN = {
    "make demo": "installs packages",
    "make live": "installs packages, and takes minutes",
    "placings --install-completion": "writes into the home folder; test_comforts.py has its own",
    "make test": "installs packages, and is what runs this",
    "pip install '.[frames,logs,neural,places,report,trees,tune]'": "installs packages",
    "placings reproduce table1 MSLR-WEB30K --device cuda": "needs a GPU; table1.md runs the same on the CPU",
    "PLACINGS_UPDATE=1 .venv/bin/pytest tests/parity/test_rules_table.py": "rewrites a page",
    "PLACINGS_UPDATE=1 .venv/bin/pytest tests/e2e/test_docs.py -k tutorial": "rewrites pages",
    ".venv/bin/python tests/fuzz/harness.py --count 1000 --seed 1": "minutes; test_fuzzers.py runs fewer",
    ".venv/bin/python tests/fuzz/kills.py --kills 20": "minutes; test_kills.py kills fewer",
    ".venv/bin/python benchmarks/read.py": "measures for minutes, on data that are not in the repository",
}
# Commands that go on until they are ended; those below them ask the service, which listens at this port.
GOES_ON = {"placings serve --model out/demo/reranker --engine sqlite:out/demo/places.db"}
PORT = 8080
# Pages whose commands take a second each: run by `make test`, with the real program. Those of other pages are
# run by `make test-slow` with little work behind them (shortened_placings.py), tutorials by test_docs.py.
QUICK = {"docs/bundles.md", "docs/engines_servers.md", "docs/log_schema.md"}
# Options that work as soon as they are parsed: they would write into the home folder of who runs the tests.
AT_ONCE = {"--install-completion", "--show-completion"}
# A command that a page shows after the ones that need what it makes.
FIRST = {"docs/command_line.md": ("placings demo --out demo",)}


@dataclass(frozen=True)
class Command:
    """A command as it is written, comment included, and what the page says of how it ends."""

    page: str
    line: int
    text: str
    code: int = 0  # of the shell
    last: str | None = None  # the last line that is printed, where the page shows `echo $?`

    @property
    def bare(self) -> str:
        return re.sub(r"\s+#.*$", "", self.text).strip()


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def find_commands(text: str, page: str) -> list[Command]:
    """Lines after `$ ` in console blocks, lines of bash blocks, indented lines that begin with placings."""
    lines = text.split("\n")
    found: list[Command] = []
    language: str | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        start = number + 1
        fence = re.match(r" *```(\w*)[^`]*$", line)
        if fence:
            language = None if language is not None else fence[1]
        shown = (
            (language == "console" and line.startswith("$ "))
            or (language in ("bash", "sh", "shell") and not fence and line.strip())
            or (language is None and re.match(r"    placings (?!.* \| )", line))
        )
        if shown:
            while line.endswith("\\"):
                number += 1
                line = f"{line}\n{lines[number]}"
            written = line.strip().removeprefix("$ ")
            stated = re.search(r"#.*\bexit (\d)", written)
            last = find_code(lines[number + 1 :]) if written.endswith("echo $?") else None
            found.append(Command(page, start, written, int(stated[1]) if stated else 0, last))
        number += 1
    return found


def find_code(lines: list[str]) -> str | None:
    """The exit code shown below a command: the last line of its block, or of the text block after."""
    rest = "\n".join(lines)
    own, _, after = rest.partition("\n```\n") if not rest.startswith("```\n") else ("", "", rest[4:])
    if not own.strip():
        block = re.match(r"\s*```text\n(.*?)\n```", after, re.S)
        own = block[1] if block else ""
    return own.strip().split("\n")[-1] or None


@cache
def all_commands() -> tuple[Command, ...]:
    return tuple(c for page in PAGES for c in find_commands(page.read_text(encoding="utf-8"), name_of(page)))


def commands_of(page: str) -> list[Command]:
    first = FIRST.get(page, ())
    runnable = [c for c in all_commands() if c.page == page and c.bare not in NOT_RUN]
    return sorted(runnable, key=lambda command: command.bare not in first)


# -- they run ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


def run_page(page: str, files: Path, folder: Path, *, short: bool) -> None:
    """All commands of a page in turn, in a folder that has the files but not what they will make."""
    shutil.copytree(files, folder, dirs_exist_ok=True)
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("docs", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    programs = folder / "programs"
    programs.mkdir()
    if short:
        script = Path(__file__).with_name("shortened_placings.py")
        (programs / "placings").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        (programs / "placings").chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PLACINGS_CACHE": str(folder / "cache")}
    for command in commands_of(page):
        for made in re.findall(r"(?:--out|-o) (\S+)", command.bare):
            target = folder / made
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    with ExitStack() as services:
        for command in commands_of(page):
            if command.bare in GOES_ON:
                services.enter_context(keep_running(command.text, folder, environment))
            else:
                run_command(command, folder, environment)


def run_command(command: Command, folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", command.text], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    said = f"{command.page}:{command.line}: {command.text}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == command.code, said
    assert "Traceback" not in done.stderr, said
    if command.text.endswith("echo $?"):
        assert done.stdout.strip().split("\n")[-1] == command.last, said


@contextmanager
def keep_running(text: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A service from the moment it listens until the block ends; it must then end when it is asked to."""
    if is_listening():
        pytest.skip(f"port {PORT} is taken")
    with (folder / "service.log").open("w") as log:
        service = subprocess.Popen(
            ["bash", "-c", f"exec {text}"], cwd=folder, env=environment, stdout=log, stderr=log
        )
        try:
            end = time.monotonic() + TIMEOUT
            while not is_listening():
                assert service.poll() is None, (folder / "service.log").read_text()
                assert time.monotonic() < end, (folder / "service.log").read_text()
                time.sleep(0.2)
            yield
        finally:
            service.terminate()
            service.wait(60)


def is_listening() -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", PORT)) == 0


WITH_COMMANDS = sorted({c.page for c in all_commands() if c.bare not in NOT_RUN})
LONG = [page for page in WITH_COMMANDS if page not in QUICK and not page.startswith("docs/tutorials/")]


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(QUICK))
def test_the_commands_of_a_page_run_as_written(page: str, files: Path, tmp_path: Path) -> None:
    run_page(page, files, tmp_path, short=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", LONG)
def test_the_long_commands_of_a_page_run_as_written(page: str, files: Path, tmp_path: Path) -> None:
    run_page(page, files, tmp_path, short=True)


def test_commands_are_found_wherever_a_page_shows_them() -> None:
    text = (
        "```console\n$ placings a b  # exit 3: too low\nprinted\n$ placings c \\\n    --d\n```\n\n"
        "    placings e f\n    placings a | b\n\n```bash\nplacings g   # why\n```\n"
        "```console\n$ placings h; echo $?\n```\n\n```text\nfailed\n3\n```\n"
    )
    found = [(c.line, c.bare, c.code, c.last) for c in find_commands(text, "page")]
    assert found == [
        (2, "placings a b", 3, None),
        (4, "placings c \\\n    --d", 0, None),
        (8, "placings e f", 0, None),
        (12, "placings g", 0, None),
        (15, "placings h; echo $?", 0, "3"),
    ]


def test_what_is_not_run_is_still_documented_and_quick_pages_have_commands() -> None:
    documented = {command.bare for command in all_commands()}
    assert [text for text in NOT_RUN if text not in documented] == []
    assert QUICK.issubset(WITH_COMMANDS)
    assert len(documented) > 60


# -- what is only shown parses -----------------------------------------------------------------------------


@cache
def load_program() -> Any:
    return get_command(app)


def walk(command: Any, words: tuple[str, ...] = ("placings",)) -> list[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    return [(words, command), *(each for name in inner for each in walk(inner[name], (*words, name)))]


def list_examples() -> list[str]:
    """The examples of every `--help`: lines that begin with placings, and what stands in $(…)."""
    found: list[str] = []
    for _, command in walk(load_program()):
        text = f"{command.callback.__doc__ if command.callback else ''}\n{command.epilog or ''}"
        found += re.findall(r"^\s*(?:Example: )?(placings .*)$", text, re.M)
        found += re.findall(r"\$\((placings [^)]*)\)", text)
    return found


def list_inline() -> list[str]:
    """Commands with options in the running text of the pages: `placings fit … --set C=1`."""
    found: list[str] = []
    for page in PAGES:
        prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        shown = re.findall(r"`(placings [^`]* -[^`]*)`", prose)
        found += [text for text in shown if not re.search(r"[\[…]|COMMAND", text)]
    return found


def find_fault(text: str) -> str | None:
    """What the program's parser says against it; nothing runs. `predict --digest` may lack what it needs.

    Errors are known by their names: typer has its own copy of click, or not, by its version.
    """
    words = shlex.split(text, comments=True)[1:]
    words = words[: next((place for place, word in enumerate(words) if word in (">", "|", "<")), None)]
    command = load_program()
    known = {flag for parameter in command.params for flag in parameter.opts}
    words = [word for word in words if word not in AT_ONCE & known]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"{text}: no command {words[0]!r}"
        command = command.commands[words.pop(0)]
    try:
        command.make_context(command.name, words)
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if not kinds & {"Exit", "MissingParameter", "BadOptionUsage", "NoArgsIsHelpError"}:
            return f"{text}: {error!r}"
    finally:
        set_quiet(False)  # --quiet takes effect as soon as it is parsed
    return None


def find_faults(texts: list[str]) -> list[str]:
    return [fault for fault in map(find_fault, texts) if fault is not None]


def test_a_command_with_an_unknown_option_or_name_is_found() -> None:
    assert find_faults(["placings fit a.txt --out b", "placings log join a b --out c"]) == []
    wrong = find_faults(["placings fit a.txt --outt b", "placings log joyn a", "placings fit --seed x"])
    assert len(wrong) == 3, wrong


def test_the_examples_of_every_help_text_parse() -> None:
    assert len(list_examples()) > 50
    assert find_faults(list_examples()) == []


def test_commands_in_the_running_text_parse() -> None:
    assert list_inline()
    assert find_faults(list_inline()) == []


def test_documented_placings_commands_parse() -> None:
    shown = [
        c.bare.replace("\\\n", " ").split(";")[0] for c in all_commands() if c.bare.startswith("placings ")
    ]
    assert find_faults(shown) == []


# -- what is named is there --------------------------------------------------------------------------------


def test_documented_benchmarks_are_there_with_the_options_that_are_shown() -> None:
    shown = [
        text
        for page in [*PAGES, ROOT / "Makefile", *sorted((ROOT / "benchmarks").glob("*.py"))]
        for text in re.findall(r"benchmarks/\w+\.py[^`\n#]*", page.read_text(encoding="utf-8"))
    ]
    assert len(shown) > 20
    for text in shown:
        file, *words = text.split()
        source = (ROOT / file.rstrip(".,:;)")).read_text(encoding="utf-8")
        for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", " ".join(words)):
            assert f'"{option}"' in source, text


FOLDERS = (DOCS, DOCS / "tutorials", ROOT / "benchmarks")
# Prints every top-level name that the libraries ask Python for, also in vain: numba tries `import coverage`.
ASK = """
import sys

class Asked:
    names = set()

    @classmethod
    def find_spec(cls, name, *_):
        cls.names.add(name.partition(".")[0])

sys.meta_path.insert(0, Asked)
import catboost, duckdb, ibis, lightgbm, matplotlib.pyplot, numba, optuna, pandas, polars, pyarrow, sklearn
import torch, xgboost

import placings

data = placings.make_ranking(3, n_features=2, mean_size=3, random_state=0).data
placings.LinearRanker().fit(data).predict(data)
print(*sorted(Asked.names | set(sys.stdlib_module_names)))
"""


@pytest.mark.slow  # loads every library
def test_no_script_has_a_name_that_libraries_import() -> None:
    """A script's folder is first on its path: numba once imported `docs/tutorials/coverage.py` so."""
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    asked = set(told.stdout.split())
    assert {"coverage", "numba", "random"} <= asked
    stems = {file.stem for folder in FOLDERS for file in folder.glob("*.py")}
    assert "first_ranking" in stems
    assert stems & asked == set()
