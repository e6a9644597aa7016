import pytest

from placings.core.errors import BadInput
from placings.core.limits import LIMITS, OverLimit, check_limit, find_limit, say_limit


@pytest.mark.parametrize("name", LIMITS)
def test_every_refusal_names_its_limit_and_the_variable_that_raises_it(name):
    message = say_limit(name, 10**15)
    assert f"{LIMITS[name].most:,}" in message
    assert f"PLACINGS_LIMIT_{name.upper()}" in message
    assert "1,000,000,000,000,000" in message


def test_the_environment_raises_a_limit(monkeypatch):
    with pytest.raises(OverLimit, match="feature number 1,048,577 is over the limit of 1,048,576"):
        check_limit("feature", 1_048_577)
    monkeypatch.setenv("PLACINGS_LIMIT_FEATURE", "2000000")
    check_limit("feature", 1_048_577)
    assert find_limit("feature") == 2_000_000


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_limit_that_is_no_whole_number_is_refused(monkeypatch, text):
    monkeypatch.setenv("PLACINGS_LIMIT_LINE", text)
    with pytest.raises(BadInput, match="PLACINGS_LIMIT_LINE must be a whole number"):
        find_limit("line")


def test_a_refusal_begins_with_where_it_happened():
    with pytest.raises(OverLimit, match="^the request: a list of 10,001 results is over the limit"):
        check_limit("k", 10_001, "the request")
