import pytest

from fuzz.harness import fuzz, list_fuzzers

# longer by hand: python tests/fuzz/harness.py --count 5000 --seed 1
CASES = 60


@pytest.mark.slow
@pytest.mark.parametrize("name", list_fuzzers())
def test_no_made_case_crashes_hangs_or_passes_as_right_when_it_is_wrong(name, tmp_path):
    tally = fuzz(name, CASES, seed=0, keep=tmp_path)
    assert tally.bad == []
    assert tally.counts["accepted"] + tally.counts["refused"] >= CASES
