import pytest

from fuzz.command_lines import list_cases, make_files, run_cases
from fuzz.harness import fuzz, list_fuzzers

# longer by hand: python tests/fuzz/harness.py --count 5000 --seed 1
CASES = 60


@pytest.mark.slow
@pytest.mark.parametrize("name", list_fuzzers())
def test_no_made_case_crashes_hangs_or_passes_as_right_when_it_is_wrong(name, tmp_path):
    tally = fuzz(name, CASES, seed=0, keep=tmp_path)
    assert tally.bad == []
    assert tally.counts["accepted"] + tally.counts["refused"] >= CASES


@pytest.mark.slow
def test_a_hostile_command_line_ends_in_one_line(tmp_path):
    """More by hand: python tests/fuzz/command_lines.py --count 700 --seed 2"""
    make_files(tmp_path)
    tally = run_cases(list_cases(40, seed=0), tmp_path)
    assert tally.bad == []
    assert sum(tally.codes.values()) == 40
