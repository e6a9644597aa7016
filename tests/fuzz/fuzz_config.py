# ruff: noqa: E501  the tables of hostile values are read across
"""Configurations of fit, tune, evaluate and compare, rules, limits and run.json with hostile values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

VALUES = [
    "abc", "-1", "0", "1", "0.5", "2", "99999999999999999999", "4294967296", ".nan", ".inf", "-.inf", "true",
    "no", "null", "~", "[]", "{}", "''", "[1, [2]]", "[a, b]", "{a: {b: 1}}", "{low: 1, high: 9}",
    "{low: a, high: [1]}", "{low: 9, high: 1, log: maybe}", '"\\e[2J"', '"\\0"', "2001-01-01", "!!binary aGk=",
    "!!set {a, b}", "&x [1]", "*x", "!!python/object/apply:os.system [true]", '"\\uD800"', "1e3", "0x10",
    "1:30", "=", "<<: {a: 1}", "non_zero", "mean", "ndcg@10", "ridge", "lightgbm", "1" * 5000, "9" * 400, "[" * 80, "- x",
    "{rule: mean}", "{limit: 0.5, rule: 3}", "{segments: [{segment: {a: 1}, limit: 0.5}]}", "train.txt",
]  # fmt: skip
FORMS = ("fit", "tune", "evaluate", "compare", "best", "old", "rules", "limits", "run")
WHOLE = {"seed": (0, 2**32 - 1), "folds": (1, 2**63 - 1), "trials": (1, 10**8), "workers": (1, 512),
         "min_items": (0, 2**63 - 1), "bootstrap": (0, 10**6), "permutations": (1, 10**6),
         "seeds": (1, 10**6), "tune": (0, 2**63 - 1), "fold": (-(2**63), 2**63 - 1)}  # fmt: skip
NUMBER = {"valid_share": (0.0, 0.9), "positive_weight": (0.0, math.inf), "alpha": (-math.inf, math.inf),
          "timeout": (-math.inf, math.inf)}  # fmt: skip
SANE = {"seed": "3", "folds": "3", "metric": "ndcg@5", "metrics": "[ndcg@5, mrr]", "ranker": "ridge", "set": "{C: 2}",
        "valid_share": "0.2", "trials": "5", "out": "runs/x", "qid": "query", "by": "[a, b]", "alpha": "0.05",
        "bootstrap": "100", "space": "{C: {low: 0.1, high: 9.0}}", "prune": "true", "version": "1", "default": "mean",
        "params": "{C: 1.0}", "positive_weight": "2", "min_events": "10", "price": "0.5", "clicks": "mean"}  # fmt: skip
RANKERS = ("ridge", "lightgbm", "ranksvm", "xgboost", "catboost", "neural", "nope")
CLASSES = ("LinearRanker", "LightGBMRanker", "XGBoostRanker", "NeuralRanker", "nope")
SETTINGS = (
    "C",
    "loss",
    "rounds",
    "params",
    "params.x",
    "random_state",
    "transform",
    "hidden",
    "n_jobs",
    "nope",
)
PASSED = ("set", "space", "model", "scores", "metrics", "features", "rankers", "by", "missing")
LIMIT_NAMES = ("version", "made", "counting", "min_events", "rule", "features")
RULE_NAMES = ("default", "features", "rule", "price", "clicks", "nope", "1")


def make(random: Random, folder: Path) -> Path:
    """A file whose name says what it is for."""
    form = random.choice(FORMS)
    if form == "run":
        path = folder / "run.json"
        path.write_bytes(random.choice([b"{", b"[]", b"[" * 5000, b'{"format": 1}', b'{"format": NaN}', b"\xff",
                                        b'{"format": 1, "config": 5}', b'"\\ud800"', b"1" * 6000]))  # fmt: skip
        return path
    names = _list_names(form)
    lines = []
    if form in ("best", "old") and random.random() < 0.8:
        lines.append(f"ranker: {random.choice(RANKERS if form == 'best' else CLASSES)}")
        inner = [f"{name}: {random.choice(VALUES)}" for name in random.sample(SETTINGS, random.randint(0, 2))]
        lines.append(f"{names[1]}: {{{', '.join(inner)}}}")
    for _ in range(random.randint(0, 4)):
        name = random.choice(names)
        value = SANE[name] if name in SANE and random.random() < 0.6 else random.choice(VALUES)
        lines.append(f"{name if random.random() < 0.95 else random.choice(VALUES)}: {value}")
    if form in ("rules", "limits") and random.random() < 0.7:
        names = random.sample(
            ("limit", "rule", "events", "windows", "spread", "low", "min_events", "segments"), 2
        )
        facts = ", ".join(f"{name}: {random.choice(VALUES)}" for name in names)
        lines += ["features:", f"  price: {{limit: 0.5, {facts}}}", f"  clicks: {random.choice(VALUES)}"]
    content = "\n".join(dict.fromkeys(lines)).encode()
    if random.random() < 0.2 and content:
        at = random.randrange(len(content))
        content = (
            content[:at]
            + random.choice([b"\xe9", b"\x00", b"\t", b"*x", b"&x ", b"\x1b", b": ", b"{"])
            + content[at:]
        )
    path = folder / f"{form}.yaml"
    path.write_bytes(content)
    return path


def check(path: Path) -> None:
    """Read it as its command does; what is let through is of the type and size that the option has."""
    from placings.cli.checks import check_ranker
    from placings.cli.evaluation import COMPARE_OPTIONS, EVALUATE_OPTIONS, compare_files, evaluate_files
    from placings.cli.fitting import OPTIONS as FIT
    from placings.cli.fitting import fit_files
    from placings.cli.loading import merge_settings, read_config, read_tuned, split_names
    from placings.cli.tuning import OPTIONS as TUNE
    from placings.cli.tuning import tune_files
    from placings.evaluation import find_space
    from placings.evaluation.runs import read_run
    from placings.feco import read_limits
    from placings.feco.rules import find_rules

    form = path.stem
    if form == "run":
        assert isinstance(read_run(path.parent).facts, dict)
    elif form == "rules":
        rules = find_rules(path, ["price", "clicks", "1"])
        assert all(
            isinstance(rule, str) or math.isfinite(rule) or abs(rule) == math.inf for rule in rules.values()
        )
    elif form == "limits":
        for entry in read_limits(path).entries:
            assert 0.0 <= entry.limit <= 1.0
    elif form in ("best", "old"):
        chosen = read_tuned(path)
        check_ranker(str(chosen["ranker"]), merge_settings(chosen, []))
    else:
        known = {"fit": FIT, "tune": TUNE, "evaluate": EVALUATE_OPTIONS, "compare": COMPARE_OPTIONS}[form]
        command: Any = {
            "fit": fit_files,
            "tune": tune_files,
            "evaluate": evaluate_files,
            "compare": compare_files,
        }[form]
        chosen = read_config(path, known, command)
        _check_types(chosen)
        settings = merge_settings(chosen, [])
        split_names(chosen.get("metrics", ""))
        if form in ("fit", "tune"):
            ranker = check_ranker(str(chosen.get("ranker", "lightgbm")), settings)
            if form == "tune":
                find_space(ranker, chosen.get("space"))


def _check_types(chosen: dict[str, Any]) -> None:
    for name, value in chosen.items():
        if name in WHOLE:
            low, high = WHOLE[name]
            right = type(value) is int and low <= value <= high
        elif name in NUMBER:
            low, high = NUMBER[name]
            right = type(value) in (int, float) and math.isfinite(value) and low <= value <= high
        elif name in ("prune", "mlflow"):
            right = isinstance(value, bool)
        else:
            right = name in PASSED or (isinstance(value, str) and "\0" not in value)
        assert right, (name, value)
        json.dumps(value, default=str)


def _list_names(form: str) -> tuple[str, ...]:
    from placings.cli.evaluation import COMPARE_OPTIONS, EVALUATE_OPTIONS
    from placings.cli.fitting import OPTIONS as FIT
    from placings.cli.tuning import OPTIONS as TUNE

    return {
        "fit": FIT, "tune": TUNE, "evaluate": EVALUATE_OPTIONS, "compare": COMPARE_OPTIONS,
        "best": ("ranker", "set", "seed", "positive_weight"), "old": ("ranker", "params"),
        "rules": RULE_NAMES, "limits": LIMIT_NAMES,
    }[form]  # fmt: skip
