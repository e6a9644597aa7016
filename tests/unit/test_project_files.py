"""The files that a stranger looks for first agree with the package."""

from __future__ import annotations

from pathlib import Path

import yaml

import placings

ROOT = Path(__file__).parents[2]


def test_the_citation_names_this_version_and_its_authors() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == placings.__version__
    assert cited["authors"] == [{"name": "The placings authors"}]
    assert {"cff-version", "message", "title"} < set(cited)  # what the format demands besides authors
