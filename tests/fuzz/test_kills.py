import pytest

from fuzz.kills import WRITERS, run_in_child

# longer by hand: python tests/fuzz/kills.py --kills 20


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_killed_writer_leaves_one_whole_version_under_the_name_and_no_rubbish_for_ever(name):
    told = run_in_child(name, kills=4)
    assert told["bad"] == []
    assert told["left"] == []
    assert told["loads"] >= 4
