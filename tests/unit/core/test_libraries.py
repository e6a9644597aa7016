"""Libraries that not every installation has."""

from __future__ import annotations

import json

import pytest

from placings.core.errors import MissingExtra
from placings.core.libraries import need_library


def test_a_library_that_is_there_is_given() -> None:
    assert need_library("json", "anything") is json


def test_a_missing_library_is_named_with_what_needs_it_and_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r"to_frame.*nosuchlib.*placings\[frames\]"):
        need_library("nosuchlib", "to_frame")
    with pytest.raises(MissingExtra, match=r"a ranker.*No Such.*placings\[trees\]"):
        need_library("nosuchlib.inner", "a ranker", "trees", "No Such")
