# ruff: noqa: E501  the tables of hostile values are read across
"""Hostile command lines: every command with odd values for its arguments and options, one at a time.

A child process serves many command lines, since loading the libraries anew costs seconds; some need a
process of their own (a closed stdout). Each must exit with 0, 1, 2 or 3 within a minute, without a traceback,
without a control character on the terminal, and with one line of error where it failed.

    .venv/bin/python tests/fuzz/command_lines.py --count 400 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

LONGEST = 60.0  # seconds of one command line
MEMORY = 12 << 30  # bytes of address space that the child may have
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")

WHOLE = ["-1", "0", "2147483648", "9223372036854775808", "99999999999999999999", "9" * 5000, "abc", "1.5",
         "nan", "", "١٢", "0x10", "1e3", "\x1b[2J"]  # fmt: skip
NUMBERS = ["nan", "inf", "-inf", "1e308", "-1", "-1e-300", "abc", "", "1,5", "\x9b31m"]
TEXTS = ["", " ", "\x1b[31mred", "a\nb", "\udcff\udcfe", "'; DROP TABLE x; --", "../../etc", "x" * 100_000,
         "\u202ecba", "{}", "[", "top:99999999999999999999", "%s%n", ",", "=", "a=", "=b", "n=\x1b[2J",
         "8x10x99999999999999999999", "nan,nan", "91,181", "1e400,0", "0001-01-01T00:00", "9999999999w",
         "*", "spark://\x1b:1", "sqlite:", "postgresql://\x07", "opensearch+http://127.0.0.1:1/x", "stratified:5:\x1b",
         "click=nan", "-5", "#99999999999999999999", "lightgbm,lightgbm", "Europe/\x1b", "ndcg@0", "ndcg@-1",
         "ndcg@99999999999999999999"]  # fmt: skip
PATHS = ["missing.txt", ".", "", "empty.txt", "binary.bin", "/dev/full", "/proc/none/x", "/dev/null",
         "latin1.csv", "-x.txt", "new\nline.txt", "esc\x1b[2J.txt", "\udcff.txt", "x" * 300, "train.txt/inside",
         "/dev/zero", "loop", "aliases.yaml", "deep.json", "folder", "truncated.parquet", "noise.parquet",
         "bad.csv", "surrogate\udce9/run", "controls.txt", "controls.csv", "/dev/full/x"]  # fmt: skip
SETTINGS = ["C=abc", "C=nan", "C=-1", "C=[1", "nope=1", "=", "C", "C={a: *x}", "C=\x1b[2J", "loss=\x1b[2J",
            "C=1e400", "random_state=-1", "max_iter=99999999999999999999", "C=" + "[" * 3000, "\udcff=1",
            "tol=null", "C=!!python/object/apply:os.system [true]"]  # fmt: skip

# what a command needs to get as far as it can; the words in braces are the files that `make_files` makes
BASE: dict[str, list[str]] = {
    "inspect": ["train.txt"],
    "fit": ["train.txt", "--ranker", "ridge", "--out", "out/fit{n}"],
    "predict": ["model", "train.txt"],
    "explain": ["model", "train.txt"],
    "evaluate": ["train.txt", "--scores", "scores.txt", "--bootstrap", "20"],
    "compare": ["train.txt", "--scores", "a=scores.txt", "--scores", "b=scores.txt", "--bootstrap", "20",
                "--permutations", "50"],
    "tune": ["train.txt", "--ranker", "ridge", "--trials", "1", "--folds", "2"],
    "import-model": ["lightgbm.txt", "out/imported{n}"],
    "export": ["model", "out/model{n}.onnx"],
    "log join": ["searches.jsonl", "actions.jsonl", "--out", "out/rows{n}.parquet"],
    "log import": ["judgements.csv", "--out", "out/judged{n}.parquet"],
    "log explore": ["rows.parquet", "--out", "out/log{n}.html"],
    "log features": ["rows.parquet", "--out", "out/data{n}.parquet", "--preset", "shop"],
    "log simulate-places": ["places.db", "out/log{n}", "--searches", "3"],
    "log simulate-shop": ["out/shop{n}", "--days", "1", "--searches", "3"],
    "rerank fit": ["missing.parquet", "--out", "out/reranker{n}"],
    "rerank evaluate": ["model", "rows.parquet", "--bootstrap", "10"],
    "rerank search": ["model", "lamp", "--hits", "hits.jsonl"],
    "coverage show": ["events.csv"],
    "coverage plan": ["events.csv", "--time", "ts", "--event", "search_id", "--draws", "1"],
    "coverage runbook": ["no-data"],
    "coverage init": ["events.csv", "--out", "out/limits{n}.yaml"],
    "coverage check": ["events.csv", "--limits", "limits.yaml"],
    "coverage trend": ["events.csv", "--store", "out/store{n}", "--time", "ts"],
    "coverage alerts": ["events.csv", "--time", "ts"],
    "coverage degrade": ["model", "train.txt", "--draws", "1", "--features", "1"],
    "coverage risk": ["model", "train.txt", "--today", "events.csv", "--draws", "1"],
    "places index": ["places.jsonl", "out/places{n}.db"],
    "places search": ["places.db", "karls"],
    "places study": ["missing.parquet", "--out", "out/study{n}"],
    "reproduce table1": ["missing.txt", "--out", "out/table{n}"],
    "reproduce coverage-drop": ["missing", "--out", "out/drop{n}"],
    "reproduce live": ["--places", "missing.jsonl", "--out", "out/live{n}"],
    "cache clear": [],
    "demo": ["--places", "missing.jsonl", "--out", "out/demo{n}"],
}  # fmt: skip


@dataclass
class Case:
    """A command line, and how its process is set up: `stdout` is a file, full or closed."""

    words: list[str]
    stdout: str = "file"
    encoding: str = "utf-8"


@dataclass
class Tally:
    """How the command lines ended; `bad` holds what was wrong, the words and what was said."""

    codes: Counter[int] = field(default_factory=Counter)
    bad: list[tuple[str, list[str], str]] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        codes = ", ".join(f"{count} exit {code}" for code, count in sorted(self.codes.items()))
        return f"{sum(self.codes.values())} command lines: {codes}; {len(self.bad)} bad; {self.seconds:.0f} s"


# -- files ---------------------------------------------------------------------------------------------------


def make_files(home: Path) -> None:
    """Files that the commands read: small good ones and hostile ones."""
    import numpy as np

    import placings as pg
    from placings.places import build_index, read_places

    numbers = np.random.default_rng(0)
    X, y = numbers.normal(size=(60, 3)), numbers.integers(0, 3, 60).astype(float)
    data = pg.RankingData.from_arrays(X, y, np.repeat(np.arange(12), 5))
    pg.write(data, home / "train.txt")
    pg.make_ranker("ridge").fit(data).save(home / "model")
    (home / "scores.txt").write_text("\n".join(map(str, X[:, 0])) + "\n")
    write = {
        "empty.txt": b"", "binary.bin": bytes(range(256)) * 40, "latin1.csv": "qid;größe\n1;2\n".encode("latin-1"),
        "-x.txt": b"1 qid:1 1:2\n", "new\nline.txt": b"1 qid:1 1:2\n0 qid:1 1:1\n",
        "esc\x1b[2J.txt": b"1 qid:1 1:2\n0 qid:1 1:1\n", "noise.parquet": b"PAR1" + bytes(500) + b"PAR1",
        "bad.csv": b'qid,label,a\n1,"2,3\n\x00,\x1b[2J,\n', "deep.json": b"[" * 20000,
        "controls.txt": b"1 qid:\x1b[2J 1:2 # \x07\n\x1b]0;x\x07 qid:1\n",
        "controls.csv": "qid,label,a\x1b[2J,\u202eb\n\x9b1,1,2,3\n1,0,5,6\n".encode(),
        "aliases.yaml": ("a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))).encode(),
        "judgements.csv": b"query,docid,rating\nlamp,1,2\nlamp,2,0\n",
        "events.csv": b"search_id,ts,price,cli\x1b[2Jcks\n" + b"".join(
            b"%d,2024-01-%02dT10:00:00,%d,%d\n" % (row, 1 + row % 20, row % 3, row % 2) for row in range(200)),
        "limits.yaml": b"version: 1\nfeatures:\n  price: {limit: 0.1}\n",
        "hits.jsonl": b'{"id": "1", "name": "l\\u001b[2Jamp"}\n',
        "searches.jsonl": b"".join(
            json.dumps({"search_id": f"s{row}", "time": f"2024-05-01T08:00:0{row}Z", "query": "l\x1b[2Jamp",
                        "results": [{"item_id": "1", "price": 2.0}, {"item_id": "2", "price": 3.0}]}).encode() + b"\n"
            for row in range(6)),
        "actions.jsonl": b"".join(
            json.dumps({"search_id": f"s{row}", "time": f"2024-05-01T08:00:3{row}Z", "item_id": "1", "action": "click"}).encode() + b"\n"
            for row in range(6)),
        "places.jsonl": b"".join(
            json.dumps({"id": f"p{row}", "name": f"Karls\x1b[2J{row}", "lat": 49.0, "lon": 8.4, "type": "st\x9bop"}).encode() + b"\n"
            for row in range(5)),
        "lightgbm.txt": b"tree\nversion=v4\nnum_class=1\n\x1b[2J\n",
    }  # fmt: skip
    for name, content in write.items():
        (home / name).write_bytes(content)
    Path(os.fsencode(home).decode(errors="surrogateescape") + "/\udcff.txt").write_bytes(b"1 qid:1 1:2\n")
    (home / "folder").mkdir()
    (home / "out").mkdir()
    (home / "loop").symlink_to("loop")
    build_index(read_places(home / "places.jsonl"), home / "places.db")
    with pg.join_logs(home / "searches.jsonl", home / "actions.jsonl") as joined:
        joined.write(home / "rows.parquet")
    (home / "truncated.parquet").write_bytes((home / "rows.parquet").read_bytes()[:-40])


# -- cases ---------------------------------------------------------------------------------------------------


def walk_commands() -> Iterator[tuple[str, Any]]:
    """The commands by their words."""
    from typer.main import get_command

    from placings.cli.main import app

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", {})
        if not inner:
            yield " ".join(words), command
        for name, each in inner.items():
            yield from walk(each, (*words, name))

    yield from walk(get_command(app), ())


def draw_value(drawn: random.Random, kind: Any, name: str, known: list[str]) -> str:
    """An odd value for a parameter of this type."""
    if name == "config":
        return write_config(drawn, known)
    if name == "set" or name == "settings":
        return drawn.choice(SETTINGS)
    if kind.type is int:
        return drawn.choice(WHOLE)
    if kind.type is float:
        return drawn.choice(NUMBERS)
    if kind.type is Path:
        return drawn.choice(PATHS)
    if isinstance(kind.type, type) and issubclass(kind.type, Enum):
        return drawn.choice([*TEXTS, *(str(each.value) for each in kind.type)])
    return drawn.choice([*TEXTS, *PATHS])


def write_config(drawn: random.Random, known: list[str]) -> str:
    """The name of a hostile configuration: a file's, or `config:` with its text."""
    values = ["abc", "-1", "99999999999999999999", ".nan", ".inf", "true", "null", "[1, [2]]", "{a: {b: 1}}",
              '"\\e[2J"', '"\\0"', "1.5", "2001-01-01", "!!binary aGVsbG8=", "'" + "x" * 5000 + "'", '"\\uD800"',
              "1" * 5000, "[]", "{}", "''", "train.txt", "ridge"]  # fmt: skip
    if drawn.random() < 0.25:
        return drawn.choice(PATHS)
    names = [name.replace("_", drawn.choice("-_")) for name in known] + ["nope", "\x1b[2J"]
    lines = [f"{json.dumps(drawn.choice(names))}: {drawn.choice(values)}" for _ in range(drawn.randint(1, 3))]
    return "config:" + "\n".join(lines) + "\n"


def list_cases(count: int, seed: int) -> list[Case]:
    """`count` command lines, all commands in turn; and a few whose stdout is the odd thing."""
    from placings.cli.values import find_kinds

    drawn = random.Random(f"command lines {seed}")
    commands = list(walk_commands())
    cases = []
    for number in range(count):
        words, command = commands[number % len(commands)]
        kinds = find_kinds(command.callback)
        base = [word.replace("{n}", str(number)) for word in BASE.get(words, [])]
        chosen = drawn.choice(command.params) if command.params else None
        if chosen is None or chosen.name not in kinds:
            given = [*base, drawn.choice(TEXTS)]
        elif chosen.param_type_name == "argument":
            place = [each.name for each in command.params if each.param_type_name == "argument"].index(
                chosen.name
            )
            given = list(base)
            value = draw_value(drawn, kinds[chosen.name], chosen.name, list(kinds))
            given[place : place + 1] = [value]
        else:
            flag = drawn.choice(chosen.opts)
            value = draw_value(drawn, kinds[chosen.name], chosen.name, list(kinds))
            at = next((place for place, word in enumerate(base) if word == flag), None)
            base = base if at is None or chosen.multiple else base[:at] + base[at + 2 :]
            given = (
                [*base, flag]
                if chosen.is_flag
                else [*base, f"{flag}={value}" if flag[1] == "-" else flag + value]
            )
        stdout = drawn.choices(["file", "full", "closed"], [20, 2, 0.4])[0]
        encoding = drawn.choices(["utf-8", "ascii", "latin-1"], [10, 2, 1])[0]
        cases.append(Case([*words.split(), *given], stdout, encoding))
    return cases


# -- running -------------------------------------------------------------------------------------------------


def run_cases(cases: list[Case], home: Path) -> Tally:
    """Run the command lines in child processes; one that dies or hangs is bad, and another child goes on."""
    tally, start = Tally(), time.monotonic()
    server: Server | None = None
    for case in cases:
        if case.stdout == "closed":
            code, said, shown = run_alone(case, home)
        else:
            server = server or Server(home)
            answer = server.ask(case)
            if answer is None:
                server.end()
                server, code, said, shown = None, -1, "it died or took longer than a minute", ""
            else:
                code, said, shown = answer["code"], answer["stderr"], answer["stdout"]
        tally.codes[code] += 1
        wrong = judge(code, said, shown)
        if wrong:
            tally.bad.append((wrong, case.words, said[-600:]))
    if server is not None:
        server.end()
    tally.seconds = time.monotonic() - start
    return tally


def judge(code: int, said: str, shown: str) -> str:
    """What is wrong with how a command line ended; nothing if it is as it should be."""
    if code not in (0, 1, 2, 3):
        return f"exit {code}"
    if "Traceback" in said:
        return "traceback"
    if "This is a bug in placings" in said:
        return "bug"
    if CONTROLS.search(said) or CONTROLS.search(shown):
        return f"control {(CONTROLS.search(said) or CONTROLS.search(shown))[0]!r}"
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    if code == 1 and len(errors) != 1:
        return f"{len(errors)} lines of error"
    others = [line for line in said.splitlines() if not line.startswith(("error:", "note:", "  "))]
    return f"more than an error: {others[0]!r}" if code == 1 and others else ""


def run_alone(case: Case, home: Path) -> tuple[int, str, str]:
    """A command line in a process of its own, with stdout closed."""
    words = [os.fsencode(word) for word in fill(case, home)]
    call = [sys.executable, "-c", "from placings.cli.main import run; run()", *words]
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *call]
    try:
        done = subprocess.run(
            command,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=LONGEST,
            env=environment(home),
        )
    except subprocess.TimeoutExpired:
        return -1, "it took longer than a minute", ""
    return done.returncode, done.stderr.decode(errors="replace"), ""


def fill(case: Case, home: Path) -> list[str]:
    """The words, with configurations written to a file."""
    words = []
    for word in case.words:
        before, sign, text = word.partition("config:")
        if sign:
            (home / "config.yaml").write_text(text)
            word = f"{before}config.yaml"
        words.append(word)
    return words


def environment(home: Path) -> dict[str, str]:
    """Nothing is written outside of `home`, and no width is wrapped to."""
    return {
        **os.environ,
        "PLACINGS_CACHE": str(home / "cache"),
        "COLUMNS": "200",
        "TMPDIR": str(home / "out"),
    }


class Server:
    """A child that runs one command line after another."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve"], cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment(home),
        )  # fmt: skip
        self.fresh = True

    def ask(self, case: Case) -> dict[str, Any] | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asdict(case)).encode() + b"\n")
        self.process.stdin.flush()
        patience, self.fresh = LONGEST + 60 * self.fresh, False  # the first one imports
        ready, _, _ = select.select([self.process.stdout], [], [], patience)
        line = self.process.stdout.readline() if ready else b""
        return json.loads(line) if line else None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def serve() -> None:
    """What a child does: read a case, run it with its own stdout and stderr, answer."""
    import io
    import resource
    import warnings

    from placings.cli.main import run

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    home = Path.cwd()
    asked = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for line in asked:
        case = Case(**json.loads(line))
        os.chdir(home)
        out = "/dev/full" if case.stdout == "full" else home / "stdout.txt"
        for number, place in ((1, out), (2, home / "stderr.txt")):
            opened = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdout = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), encoding=case.encoding, errors="strict")
        sys.stderr = io.TextIOWrapper(
            os.fdopen(os.dup(2), "wb", 0),
            encoding=case.encoding,
            errors="backslashreplace",
            write_through=True,
        )
        sys.argv = ["placings", *fill(case, home)]
        code: object = 0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                    warnings.simplefilter("ignore", kind)
                run()
        except SystemExit as end:
            code = end.code
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
        with suppress(OSError, ValueError):  # the full device
            sys.stdout.close()
        shown = (
            (home / "stdout.txt").read_bytes().decode(case.encoding, "replace")
            if case.stdout == "file"
            else ""
        )
        said = (home / "stderr.txt").read_bytes().decode(case.encoding, "replace")
        answer = {"code": code if isinstance(code, int) else -2, "stdout": shown, "stderr": said}
        if not isinstance(code, int):
            answer["stderr"] += f"\n{code}"
        replies.write(json.dumps(answer) + "\n")


def main() -> int:
    """Run many by hand; 1 if one ended badly."""
    parser = argparse.ArgumentParser(description="Hostile command lines.")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="placings-lines-"))
    try:
        make_files(home)
        tally = run_cases(list_cases(chosen.count, chosen.seed), home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(tally)
    for wrong, words, said in tally.bad:
        shown = [word if len(word) < 200 else f"{word[:60]}… ({len(word)} letters)" for word in words]
        print(f"  {wrong}: {shown!r}\n    {said.strip()[-400:]!r}")
    return int(bool(tally.bad))


if __name__ == "__main__":
    serve() if sys.argv[1:2] == ["serve"] else sys.exit(main())
