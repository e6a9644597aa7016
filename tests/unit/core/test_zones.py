"""Time zones by name."""

from __future__ import annotations

from datetime import datetime

import pytest

from placings.core.errors import BadInput
from placings.core.times import find_zone, need_zone


def test_a_zone_is_found_by_its_name() -> None:
    berlin = need_zone("Europe/Berlin")
    assert find_zone("Europe/Berlin") == berlin
    assert datetime(2024, 7, 1, tzinfo=berlin).utcoffset().total_seconds() == 2 * 3600  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["", "Mars", "Europe", "../etc/passwd", "Europe/Berlin\0"])
def test_what_is_no_zone_is_none_or_refused(name: str) -> None:
    assert find_zone(name) is None
    with pytest.raises(BadInput, match="such as 'Europe/Berlin'. Got"):
        need_zone(name)
