"""When a feature counts as covered: by name, by a number, per feature from a file or a saved ranker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from placings.core import (
    MANIFEST,
    BadBundle,
    BadFile,
    BadInput,
    UnknownName,
    format_number,
    parse_json,
    read_bundle,
    read_json,
    read_yaml,
)
from placings.data import COVERAGE_RULES

if TYPE_CHECKING:
    from placings.data import OpenedTable

Rule: TypeAlias = str | float
NON_ZERO = "non_zero"
LEARNED = ("mean", "median")  # rules whose threshold comes from data
SUFFIXES = (".yaml", ".yml", ".json")
MEDIANS = 8  # columns whose medians are taken together: an exact median holds its whole column


def find_rules(rule: Any, known: Sequence[str]) -> dict[str, Rule]:
    """The rule of each feature in `known`.

    `rule` is one of `COVERAGE_RULES`, a number t (covered means `value > t`), a mapping of features to
    rules, a YAML or JSON file with one, or a saved ranker's folder (whose features are covered when present
    and not zero, as `features.json` says). A mapping is flat, or `{default: …, features: {name: rule}}`,
    where a feature may also be `{rule: …}` with other entries beside it; `default` is "non_zero" if not
    said. A feature that the table does not have is an error, so that a typo never becomes the default.

    >>> find_rules({"default": "positive", "features": {"price": 0.5}}, ["price", "clicks"])
    {'price': 0.5, 'clicks': 'positive'}
    """
    if isinstance(rule, Mapping):
        return _spread(rule, known, "rule")
    if isinstance(rule, PathLike) or (isinstance(rule, str) and _is_path(rule)):
        path = Path(rule)
        if (path / MANIFEST).is_file():
            return _read_bundle_rules(path, known)
        return _spread(read_rule_file(path), known, path.name)
    one = check_rule(rule)
    return dict.fromkeys(known, one)


def check_rule(rule: Any, where: str = "rule") -> Rule:
    """A rule that is known, or an error that lists what is."""
    if isinstance(rule, str):
        if rule not in COVERAGE_RULES:
            raise UnknownName("coverage rule", rule, COVERAGE_RULES)
        return rule
    if isinstance(rule, bool) or not isinstance(rule, int | float | np.number) or not _is_float(rule):
        raise BadInput(
            f"{where} must be a number, one of {', '.join(COVERAGE_RULES)}, a mapping of features to these, "
            f"a YAML or JSON file, or a saved ranker's folder. Got {rule!r}."
        )
    return float(rule)


def _is_float(rule: Any) -> bool:
    """Whether it is a number that a threshold can be; 10^400 is none."""
    try:
        return not math.isnan(float(rule))
    except OverflowError:
        return False


def read_rule_file(path: str | PathLike[str]) -> Mapping[str, Any]:
    """The mapping of a YAML or JSON file; nothing in it is executed."""
    path = Path(path)
    if not path.is_file():
        raise BadFile(path, f"there is no such file of rules, and no coverage rule of that name. Rules: "
                      f"{', '.join(COVERAGE_RULES)}, or a number.")  # fmt: skip
    read = read_json(path) if path.suffix.lower() == ".json" else read_yaml(path)
    if not isinstance(read, Mapping):
        raise BadFile(path, "must hold `feature: rule`, one a line.")
    return read


def describe_rule(rule: Rule, threshold: float | None = None) -> str:
    """A rule in words, with its threshold where data gave one.

    >>> describe_rule("mean", 2.5)
    'above its mean, 2.5'
    """
    if isinstance(rule, float | int):
        return f"above {format_number(rule, 6)}"
    if rule in LEARNED:
        return f"above its {rule}" + ("" if threshold is None else f", {format_number(threshold, 6)}")
    return {"non_zero": "present and not 0", "positive": "above 0", "non_null": "present"}[rule]


# -- thresholds -----------------------------------------------------------------------------------------


def learn_thresholds(source: OpenedTable, table: Any, rules: Mapping[str, Rule]) -> dict[str, float]:
    """The mean or median of the present values of each feature whose rule asks for it.

    Means are one pass for all; exact medians hold their columns, so they are taken eight at a time. A mean
    is rounded to 12 digits: engines add up in different orders. Without a present value it is NaN.
    """
    import ibis

    means = [name for name, rule in rules.items() if rule == "mean"]
    medians = [name for name, rule in rules.items() if rule == "median"]
    found: dict[str, float] = {}

    def ask(names: Sequence[str], kind: str) -> None:
        asked: dict[str, Any] = {}
        for place, name in enumerate(names):
            values = as_numeric(table[name])
            if values is None:
                continue
            values = values.cast("float64")
            values = values.isnan().ifelse(ibis.null("float64"), values)
            asked |= {
                f"v{place}": getattr(values, kind)(),
                f"l{place}": values.min(),
                f"h{place}": values.max(),
            }
        row: Any = source.ask(table.aggregate(**asked)).iloc[0] if asked else {}
        for place, name in enumerate(names):
            value = row.get(f"v{place}")
            value = math.nan if value is None else float(value)
            if not math.isnan(value) and kind == "mean":
                value = min(max(float(f"{value:.12g}"), float(row[f"l{place}"])), float(row[f"h{place}"]))
            found[name] = value

    if means:
        ask(means, "mean")
    for start in range(0, len(medians), MEDIANS):
        ask(medians[start : start + MEDIANS], "median")
    return found


# -- expressions ----------------------------------------------------------------------------------------


def as_numeric(column: Any) -> Any:
    """A column as something to compare with numbers; None for one of no type, which has no value."""
    kind = column.type()
    if is_valueless(kind):
        return None
    return column.cast("int8") if kind.is_boolean() else column


def is_valueless(kind: Any) -> bool:
    """Whether a column has no type because it has no value."""
    return bool(kind.is_null() or (kind.is_unknown() and "NULL" in str(kind)))


def covered_where(column: Any, rule: Rule, threshold: float | None = None) -> Any:
    """The condition under which a value is covered, as an Ibis expression; NULL and NaN never are.

    NaN is asked for by name: engines sort it above every number, so a bare `> 0` would count it.
    """
    import ibis

    values = as_numeric(column)
    limit = threshold if rule in LEARNED else rule if isinstance(rule, float) else None
    if values is None or (limit is not None and math.isnan(limit)):
        return column.isnull() & column.notnull()  # never, but of the table: a bare False cannot be counted
    if rule == "non_null":
        there = values.notnull()
    elif rule == NON_ZERO:
        there = values != 0
    elif rule == "positive":
        there = values > 0
    else:  # in float64 everywhere: engines differ in how they compare float32 with 0.1
        there = values.cast("float64") > ibis.literal(limit, "float64")
    return there & ~values.isnan() if values.type().is_floating() else there


# -- inside -----------------------------------------------------------------------------------------------


def _is_path(text: str) -> bool:
    if text in COVERAGE_RULES:
        return False
    return text.lower().endswith(SUFFIXES) or "/" in text or (Path(text) / MANIFEST).is_file()


def _spread(given: Mapping[str, Any], known: Sequence[str], where: str) -> dict[str, Rule]:
    parts = given.get("features")
    per_feature = parts if isinstance(parts, Mapping) else {k: v for k, v in given.items() if k != "default"}
    default = check_rule(given.get("default", given.get("rule", NON_ZERO)), f"the default rule of {where}")
    if not isinstance(parts, Mapping):
        per_feature = {name: value for name, value in per_feature.items() if name != "rule"}
    rules: dict[str, Rule] = dict.fromkeys(known, default)
    for name, value in per_feature.items():
        if str(name) not in rules:
            raise UnknownName(f"feature of {where} in the table named", str(name), known)
        chosen = value.get("rule", default) if isinstance(value, Mapping) else value
        rules[str(name)] = check_rule(chosen, f"the rule of {name!r}")
    return rules


def _read_bundle_rules(path: Path, known: Sequence[str]) -> dict[str, Rule]:
    from placings.rankers import FEATURES

    contract = parse_json(read_bundle(path).files[FEATURES])
    if contract.get("covered") != "present and not zero":
        raise BadBundle(path, f"has a rule of coverage that is not known: {contract.get('covered')!r}.")
    return {name: check_rule(contract.get("rules", {}).get(name, NON_ZERO)) for name in known}
