"""Every command, with long names: its table fits 80 columns with no number cut, and --json is one object.

The lists here must name every command, so that a new one cannot be forgotten.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import documented_files as files
import frozen_surface as surface
import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len
from terminal import call_placings
from typer.main import get_command

import placings as pg
from placings.cli.main import app

NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?%?")
LONG = (
    "click_through_rate_of_the_item_in_the_last_28_days_by_region",
    "click_through_rate_of_the_item_in_the_last_56_days_by_region",
    "similarity_of_the_query_and_the_title_after_stemming",
    "price",
)
REGION = "north_rhine_westphalia_and_lower_saxony"
COUNTED = "--event search_id --time time --within rows --by region"

# what prints no result, and why
NO_JSON = {
    "serve": "it runs until it is stopped; its log is JSON lines on stderr",
}
# a list since before there was this rule; scripts read it as one
A_LIST = {"places search"}

# {n} differs from run to run, so that each writes anew; the later ones read what the earlier ones wrote
QUICK = {
    "inspect": "inspect train.csv",
    "fit": "fit train.csv --ranker ridge --test test.csv --out runs/ridge{n}",
    "evaluate": "evaluate test.csv --model runs/trees/model --by list_size --bootstrap 20",
    "explain": "explain runs/trees test.csv --query 3",
    "compare": "compare test.csv --model a_model_of_trees_with_all_features=runs/trees/model"
    " --model a_linear_model_with_all_features=runs/line/model --bootstrap 20"
    " --baseline a_linear_model_with_all_features --by list_size",
    "predict": "predict runs/trees/model test.csv --top 1",
    "import-model": "import-model lightgbm.txt imported{n}",
    "tune": "tune train.csv --ranker ridge --trials 2 --folds 2",
    "coverage show": f"coverage show events.parquet {COUNTED}",
    "coverage plan": "coverage plan events.parquet --time time --event search_id --windows 2"
    " --per-window 20,50 --draws 2 --features price",
    "coverage init": f"coverage init events.parquet {COUNTED} -o limits{{n}}.yaml",
    "coverage check": "coverage check events.parquet --limits limits.yaml --all",
    "coverage trend": f"coverage trend events.parquet --store store{{n}} {COUNTED}",
    "coverage alerts": f"coverage alerts events.parquet {COUNTED}",
    "coverage runbook": "coverage runbook severe-drop",
    "coverage degrade": "coverage degrade runs/trees/model test.csv --features price --draws 2",
    "coverage risk": f"coverage risk runs/trees/model test.csv --today events.parquet {COUNTED} --draws 2",
    "places index": "places index places.jsonl.gz places{n}.db",
    "places search": "places search places.db haupt --near 49.01,8.40",
    "log simulate-places": "log simulate-places places.db log{n} --searches 30 --k 5",
    "log simulate-shop": "log simulate-shop shop{n} --days 2 --searches 10 --broken 0.05",
    "log join": "log join searches.parquet actions.parquet --out rows{n}.parquet",
    "log import": "log import judgements.csv --out judged{n}.parquet",
    "log split": "log split rows.parquet past{n}.parquet future{n}.parquet",
    "log features": "log features rows.parquet --out data{n}.parquet",
    "log propensity": "log propensity served_rows.parquet",
    "log explore": "log explore rows.parquet --out log{n}.html",
    "rerank fit": "rerank fit rows.parquet --out reranker{n} --ranker lightgbm",
    "rerank evaluate": "rerank evaluate reranker test.parquet --by platform --bootstrap 20",
    "rerank search": "rerank search reranker haupt --engine sqlite:places.db",
    "would-have": "would-have --model reranker --log served_rows.parquet",
    "serve report": "serve report --data serve-data",
    "serve export": "serve export --data serve-data --out week{n}",
    "serve forget": "serve forget nobody --data serve-data",
    "serve prune": "serve prune --data serve-data --keep-days 30",
    "cache": "cache",
    "cache list": "cache list",
    "cache path": "cache path",
    "cache clear": "cache clear",
}  # fmt: skip
# those whose work is cut down by shortened_placings.py, each in a process of its own
LONGER = {
    "export": "export runs/neural/model ranker{n}.onnx",
    "demo": "demo --places places.jsonl.gz --searches 300 --out demo{n}",
    "places study": "places study rows.parquet --quick --out study{n}",
    "reproduce table1": "reproduce table1 train.csv --methods raw,log1p --folds 1, --out table{n}",
    "reproduce coverage-drop": "reproduce coverage-drop --parts generated --rankers ridge --queries 40"
    " --draws 2 --retrained 1 --compared 3 --out drop{n}",
    "reproduce live": "reproduce live --places places.jsonl.gz --seeds 1 --people 20 --before 1 --weeks 1"
    " --out live{n}",
}
SAID_NO = {"coverage check", "would-have"}  # gates: they say no with exit code 3, and print all the same


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(0)
    for name, queries in (("train", 30), ("test", 12)):
        rows = 6 * queries
        frame = pd.DataFrame({feature: rng.random(rows) * 10_000 for feature in LONG})
        frame.insert(0, "label", (frame["price"] > 5000).astype(int))
        frame.insert(0, "qid", np.repeat(np.arange(queries), 6))
        frame.to_csv(home / f"{name}.csv", index=False)
    train = pg.read(home / "train.csv", qid="qid", label="label")
    trees = pg.LightGBMRanker(rounds=4, leaves=4, random_state=0, n_jobs=1).fit(train)
    trees.save(home / "runs/trees/model")
    trees.booster_.save_model(str(home / "lightgbm.txt"))
    pg.LinearRanker("ridge").fit(train).save(home / "runs/line/model")
    neural = pg.NeuralRanker(hidden=[4], steps=2, random_state=0, device="cpu").fit(train)
    neural.save(home / "runs/neural/model")
    log = pg.make_shop_log(30, searches=60, random_state=0).to_pandas()
    events = log[["search_id", "time"]].assign(region=np.where(log["region"] == "north", REGION, "south"))
    events = events.assign(**{name: log["price"].to_numpy() for name in LONG})
    events.to_parquet(home / "events.parquet", index=False)
    files.write_places(home)
    files.write_imports(home)
    files.write_served(home / "serve-data")
    files.write_swapped(home / "served_rows.parquet")
    for line in (
        f"coverage init events.parquet {COUNTED} -o limits.yaml",
        "rerank fit rows.parquet --out reranker --ranker lightgbm",
    ):
        done = call_placings(*line.split(), cwd=home, PLACINGS_CACHE=str(home / "cache"))
        assert done.returncode == 0, done.stderr
    return home


def list_commands() -> set[str]:
    """Every command that does something by its own words: `cache` lists, other groups only show help."""
    walked = surface.walk_commands(get_command(app))
    return {
        " ".join(words[1:])
        for words, command in walked
        if not hasattr(command, "commands") or command.invoke_without_command
    }


def test_every_command_is_in_one_of_the_lists() -> None:
    assert list_commands() == {*QUICK, *LONGER, *NO_JSON}


def test_every_command_that_prints_a_result_has_json_and_every_one_can_be_quiet() -> None:
    flags = {
        " ".join(words[1:]): {flag for parameter in command.params for flag in parameter.opts}
        for words, command in surface.walk_commands(get_command(app))
    }
    without = {name for name in list_commands() if "--json" not in flags[name]}
    assert without == {*NO_JSON, "cache"}  # `cache` alone is `cache list`, which has it
    assert [name for name in list_commands() if not {"--quiet", "-q"} <= flags[name]] in (
        ["serve", "cache"], ["cache", "serve"],
    )  # groups take it before their name: placings -q serve  # fmt: skip


def find_long(text: str) -> list[str]:
    """Lines of columns that are wider than 80. A sentence, a path or a command is the terminal's to wrap."""
    return [line for line in text.splitlines() if cell_len(line) > 80 and re.search(r"\S {2,}\S", line)]


def count_numbers(text: str) -> Counter[str]:
    """The numbers that stand by themselves; headings, which may be repeated, have none."""
    words = re.sub(r"[][(),;]*[\s│|*†‡▼▽]+[][(),;]*", " ", f" {text} ").split()
    return Counter(word for word in words if NUMBER.fullmatch(word))


def check_json(name: str, text: str) -> None:
    found = json.loads(text)
    assert isinstance(found, list if name in A_LIST else dict)
    assert found or name in A_LIST


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_table_fits_80_columns_with_every_number_whole(name: str, folder: Path) -> None:
    def call(n: str, *more: str, columns: str = "80") -> CompletedProcess[str]:
        words = [*QUICK[name].format(n=n).split(), *more]
        cache = str(folder / "cache")
        done = call_placings(*words, cwd=folder, COLUMNS=columns, PLACINGS_CACHE=cache, NO_COLOR="1")
        assert done.returncode in ((0, 3) if name in SAID_NO else (0,)), done.stderr
        return done

    narrow, wide = call("a"), call("b", columns="400")
    assert narrow.stdout
    assert find_long(narrow.stdout) == []
    if name not in ("predict", "inspect"):  # rows for programs; columns left out, which the last line names
        assert count_numbers(wide.stdout) - count_numbers(narrow.stdout) == Counter()
    if name != "cache":
        check_json(name, call("c", "--json").stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONGER)
def test_a_long_command_fits_80_columns_and_prints_one_object(name: str, folder: Path) -> None:
    import os

    script = Path(__file__).with_name("shortened_placings.py")
    environment = {**os.environ, "COLUMNS": "80", "PLACINGS_CACHE": str(folder / "cache"), "NO_COLOR": "1"}
    for more in ((), ("--json",)):
        words = [*LONGER[name].format(n=len(more)).split(), *more]
        done = subprocess.run(
            [sys.executable, script, *words], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        if more:
            check_json(name, done.stdout)
        else:
            assert find_long(done.stdout) == []
