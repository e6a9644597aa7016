"""Finds out whose rule is which by asking, and keeps `docs/metric_rules.md` equal to the answers.

PLACINGS_UPDATE=1 writes the page anew.
"""

from __future__ import annotations

import math
import os
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from frozen_peers import FROZEN
from metric_peers import PEERS
from rule_cases import CASES

from placings.metrics import metric

PAGE = Path(__file__).parents[2] / "docs" / "metric_rules.md"
WORDS = {
    "stable": "row order",
    "worst": "worst first",
    "average": "averaged",
    "falling id": "document id, falling",
    "last rank": "all tied rows at the tie's last rank",
    "random": "random",
    None: "unspecified (its sort is not stable)",
}
FROZEN_VERSIONS = {"TF-Ranking": "TF-Ranking 0.5.5", "Rax": "Rax 0.4.0"}
HEAD = """# Whose rule is which

The same scores get other numbers from other libraries, because each has rules of its own for gain, ties,
queries with nothing relevant, and cutoffs. This page is written by `tests/parity/test_rules_table.py`, which
asks each library about tiny lists and looks for the keywords that give its answer; do not edit it by hand
(`PLACINGS_UPDATE=1 pytest tests/parity/test_rules_table.py` writes it anew).

Each row is a library's default. *Empty query* is what a query with nothing relevant adds to the mean.
`ideal at k` means that the best DCG is cut where the order is; a dash, that the library does not have it.
"""
TAIL = """
- **trec_eval** (ir_measures, pytrec_eval): give rows in falling order of document id, with `ties="stable"`.
- **ranx** keeps row order in short lists only; TF-Ranking shuffles ties anew at each call. `ndcg_burges` is
  ranx's NDCG with `gain="exp2"`.
- **XGBoost** looks at 32 ranks when the name has no cutoff; `ndcg@k-` is its rule with `empty="zero"`; its
  `map` takes binary labels only, and its `pre@k` divides by the length of a list shorter than k.
- **CatBoost**'s `NDCG:type=Exp` is its rule with `gain="exp2"`.
- **scikit-learn**'s row for MAP is `label_ranking_average_precision_score`.
- **TF-Ranking and Rax** were asked once (`tests/parity/freeze_peers.py`) and answer in float32.
"""


def mean_of(name, queries, k, **keywords):
    """The mean as a library would give it, dropped queries left out."""
    values = [metric(name if k is None else f"{name}@{k}", **keywords)(*query)[0] for query in queries]
    kept = [value for value in values if not math.isnan(value)]
    return sum(kept) / len(kept)


def backwards(queries):
    return [(scores[::-1], labels[::-1]) for scores, labels in queries]


def candidates(name, case, keywords):
    """Every rule that a case can tell apart → the value it gives, the other rules being `keywords`."""
    queries, k = CASES[name][case]
    match name, case:
        case "ndcg", "order":
            return {gain: mean_of(name, queries, k, gain=gain) for gain in ("exp2", "linear")}
        case "ndcg", "cut":
            whole = mean_of("dcg", queries, k, **keywords) / mean_of(
                "dcg", [(labels, labels) for _, labels in queries], None, **keywords
            )
            return {"ideal at k": mean_of(name, queries, k, **keywords), "ideal of the whole list": whole}
        case "map", "cut":
            return {
                rule: mean_of(name, queries, k, denominator=rule) for rule in ("R", "min(k,R)", "retrieved")
            }
        case "mrr", "cut":
            return {"0 below k": mean_of(name, queries, k)}
        case _, "order":
            return {"": mean_of(name, queries, k)}
        case _, "empty":
            return {
                rule: mean_of(name, queries, k, empty=rule, **keywords) for rule in ("drop", "zero", "one")
            }
        case _, "ties":
            rules = ("stable", "worst", "average") if name == "ndcg" else ("stable", "worst")
            found = {rule: mean_of(name, queries, k, ties=rule, **keywords) for rule in rules}
            found["falling id"] = mean_of(name, backwards(queries), k, **keywords)
            if name == "map":
                labels = queries[0][1]
                found["last rank"] = sum(labels) / len(labels)
            return found
    raise AssertionError(case)


def recognise(name, case, value, tolerance, keywords):
    """The one rule that gives `value`, or None."""
    near = [rule for rule, mine in candidates(name, case, keywords).items() if abs(mine - value) <= tolerance]
    assert len(near) <= 1, f"{name} {case} does not tell {near} apart"
    return near[0] if near else None


def make_row(library, name, answer, tolerance):
    """One line of the table, or None when the library has no such metric."""
    order = answer(name, "order")
    if order is None:
        return None
    gain = recognise(name, "order", order, tolerance, {})
    assert gain is not None, f"{library}'s {name} follows no rule of ours: {order}"
    keywords = {"gain": gain} if name == "ndcg" else {}
    cut = answer(name, "cut")
    cutoff = None if cut is None else recognise(name, "cut", cut, tolerance, keywords)
    ties = answer(name, "ties")
    rule = "random" if ties == "random" else recognise(name, "ties", ties, tolerance, keywords)
    empty = recognise(name, "empty", answer(name, "empty"), tolerance, keywords)
    assert empty is not None, f"{library}'s {name} of an empty query follows no rule of ours"
    calls = [f'gain="{gain}"'] if name == "ndcg" else []
    calls += [f'denominator="{cutoff}"'] if name == "map" and cutoff else []
    calls += [f'ties="{rule}"'] if rule in ("stable", "worst", "average") else []
    calls += [f'empty="{empty}"']
    shown = {"map": f"`{cutoff}`" if cutoff else "–", "mrr": cutoff or "–", "ndcg": cutoff}[name]
    cells = [library, WORDS[rule], empty, shown, f"`{', '.join(calls)}`"]
    if name == "ndcg":
        cells.insert(1, gain)
    return "| " + " | ".join(cells) + " |"


@cache
def ask_live(library, name, case):
    try:
        return PEERS[library][1](name, *CASES[name][case])
    except NotImplementedError:
        return None


def render():
    parts = [HEAD]
    titles = {"ndcg": "NDCG", "map": "MAP", "mrr": "MRR"}
    for name, title in titles.items():
        columns = ["library", *(["gain"] if name == "ndcg" else []), "ties", "empty query"]
        columns += [{"ndcg": "cutoff", "map": "denominator", "mrr": "cutoff"}[name], "keywords that give it"]
        rows = [make_row("**placings**", name, lambda m, case: mean_of(m, *CASES[m][case]), 1e-12)]
        for library, (module, _) in PEERS.items():
            try:
                __import__(module)
            except ImportError:
                section = PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
                rows += [line for line in section.splitlines() if line.startswith(f"| {library} |")]
                continue
            rows.append(make_row(library, name, lambda m, case, who=library: ask_live(who, m, case), 1e-9))
        for library, values in FROZEN.items():
            shown = FROZEN_VERSIONS[library]
            rows.append(make_row(shown, name, lambda m, case, them=values: them[m][case], 1e-6))
        lines = [f"\n## {title}\n", "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
        parts.append("\n".join([*lines, *(row for row in rows if row)]) + "\n")
    return "".join(parts) + TAIL


@pytest.mark.slow  # it asks ranx too, which compiles itself for half a minute where nothing is cached yet
def test_the_page_says_what_the_libraries_do():
    page = render()
    if os.environ.get("PLACINGS_UPDATE") == "1":
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "PLACINGS_UPDATE=1 writes it anew"


@pytest.mark.parametrize("name", CASES)
def test_the_cases_tell_the_rules_apart(name):
    keywords = {"gain": "exp2"} if name == "ndcg" else {}
    for case in CASES[name]:
        values = sorted(candidates(name, case, keywords).values())
        assert all(later - earlier > 1e-3 for earlier, later in pairwise(values)), case
