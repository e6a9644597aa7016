"""Rules: by name, by number, per feature from a mapping, a file or a saved ranker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placings.core.errors import BadFile, BadInput, UnknownName
from placings.data.quality import describe_features
from placings.feco.rules import find_rules
from placings.feco.score import coverage
from placings.rankers.linear import LinearRanker
from placings.simulate.rankings import make_ranking

pytest.importorskip("ibis")
pytest.importorskip("pandas")

KNOWN = ["price", "clicks"]
RULES = {
    "flat": "price: 0.5\ndefault: positive\n",
    "nested": "default: positive\nfeatures:\n  price: 0.5\n",
    "more beside": "rule: positive\nfeatures:\n  price: {rule: 0.5, limit: 0.9}\n  clicks: {limit: 0.1}\n",
}


@pytest.mark.parametrize("form", RULES)
def test_a_file_says_the_rule_of_each_feature(form: str, tmp_path: Path) -> None:
    import yaml

    (tmp_path / "rules.yaml").write_text(RULES[form])
    (tmp_path / "rules.json").write_text(json.dumps(yaml.safe_load(RULES[form])))
    for name in ("rules.yaml", "rules.json"):
        assert find_rules(tmp_path / name, KNOWN) == {"price": 0.5, "clicks": "positive"}
        assert find_rules(str(tmp_path / name), KNOWN) == {"price": 0.5, "clicks": "positive"}


def test_what_is_not_said_is_non_zero() -> None:
    assert find_rules({"price": "mean"}, KNOWN) == {"price": "mean", "clicks": "non_zero"}
    assert find_rules({}, KNOWN) == {"price": "non_zero", "clicks": "non_zero"}


def test_a_feature_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("prise: 0.5\n")
    with pytest.raises(
        UnknownName, match="feature of rules.yaml in the table named 'prise'; did you mean 'price'"
    ):
        find_rules(tmp_path / "rules.yaml", KNOWN)


@pytest.mark.parametrize(("rule", "message"), [
    ("non_zeros", "no coverage rule 'non_zeros'; did you mean 'non_zero'"),
    (True, "rule must be a number, one of .* Got True"),
    (float("nan"), "Got nan"),
    (None, "Got None"),
    ([1], "Got \\[1\\]"),
    ({"price": "no"}, "no coverage rule 'no'"),
    ({"default": None}, "the default rule of rule must be a number"),
])  # fmt: skip
def test_a_rule_that_is_not_known_is_refused(rule: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        find_rules(rule, KNOWN)


@pytest.mark.parametrize(("text", "message"), [
    ("- price\n", "must hold `feature: rule`"),
    ("price: [1\n", "is not YAML that can be read"),
    ("!!python/object/apply:os.system ['true']\n", "is not YAML that can be read"),
])  # fmt: skip
def test_a_file_that_is_no_mapping_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(text)
    with pytest.raises(BadFile, match=message):
        find_rules(tmp_path / "rules.yaml", KNOWN)
    with pytest.raises(BadFile, match="there is no such file of rules"):
        find_rules("none.yaml", KNOWN)


def test_a_saved_ranker_says_its_rule_and_its_training_coverage_is_met(tmp_path: Path) -> None:
    data = make_ranking(30, n_features=8, missing=0.1, random_state=0).data
    ranker = LinearRanker(loss="ridge").fit(data)
    ranker.save(tmp_path / "model")
    found = coverage(data, rule=tmp_path / "model")
    assert set(found.rules.values()) == {"non_zero"}
    shares = found.to_pandas()["coverage"].tolist()
    assert shares == pytest.approx(ranker.coverage_.tolist(), abs=1e-6)


@pytest.mark.parametrize("rule", ["non_zero", "non_null", "mean", "median", 0.25])
def test_a_rule_means_what_it_means_for_ranking_data(rule: Any) -> None:
    data = make_ranking(30, n_features=12, missing=0.05, random_state=1).data
    expected = [facts.covered for facts in describe_features(data, rule=rule)]
    assert coverage(data, rule=rule).to_pandas()["coverage"].tolist() == pytest.approx(expected)
