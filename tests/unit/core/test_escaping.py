import pytest

from placings.core.escaping import escape_line, escape_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("back\x08\x08", r"back\x08\x08"),
        ("one\rtwo", r"one\rtwo"),
        ("csi \x9b2J", r"csi \x9b2J"),
        ("exe\u202efdp.", r"exe\u202efdp."),
        ("half \ud800", r"half \ud800"),
        ("sep\u2028arated", r"sep\u2028arated"),
    ],
)
def test_what_steers_a_terminal_is_shown_and_not_obeyed(text, shown):
    assert escape_text(text) == escape_line(text) == shown


@pytest.mark.parametrize("text", ["Köln Hbf", "東京駅", "نص", "👩‍🚒", "a\u00a0b", "naïve – “quoted”"])
def test_letters_of_every_script_stay(text):
    assert escape_text(text) == escape_line(text) == text


def test_only_a_text_keeps_its_line_feeds_and_tabs():
    assert escape_text("a\tb\nc") == "a\tb\nc"
    assert escape_line("a\tb\nc") == r"a\tb\nc"
