import pytest

from placings.core.errors import BadFile
from placings.core.texts import parse_json, parse_yaml, read_config_text, read_json, read_yaml


def nest(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_values_nested_64_deep_are_read_and_deeper_ones_refused(parse):
    assert parse(nest(64)) is not None
    for depth in (65, 1_000, 100_000):
        with pytest.raises(ValueError, match="PLACINGS_LIMIT_DEPTH"):
            parse(nest(depth))


def test_brackets_in_text_are_not_nesting():
    assert parse_json('["' + "[" * 1000 + '"]') == ["[" * 1000]


def test_an_alias_in_yaml_is_refused_with_its_line():
    text = "a: &a [x, x]\nb: &b [*a, *a]\n"
    with pytest.raises(
        ValueError, match=r"aliases \(\*name\) are not allowed; write the value out \(line 2\)"
    ):
        parse_yaml(text)


def test_a_tag_in_yaml_is_refused():
    with pytest.raises(ValueError, match="could not determine a constructor"):
        parse_yaml("!!python/object/apply:os.system [echo]")


def test_a_complaint_is_one_line(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("a: [1\nb: 2\n")
    with pytest.raises(BadFile) as caught:
        read_yaml(file)
    assert "\n" not in str(caught.value)
    assert "line 2" in str(caught.value)


def test_latin_1_is_refused_with_its_line_and_what_to_do(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_bytes("a: 1\nname: Köln\n".encode("latin-1"))
    with pytest.raises(
        BadFile, match=r"c\.yaml:2: is not UTF-8 text \(byte 0xf6\)\. Save it again as UTF-8\."
    ):
        read_config_text(file)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    file = tmp_path / "c.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(file) == {"a": 1}


def test_a_configuration_over_its_limit_is_refused_unread(tmp_path, monkeypatch):
    file = tmp_path / "c.json"
    file.write_text("[" + " " * 100 + "]")
    monkeypatch.setenv("PLACINGS_LIMIT_CONFIG", "50")
    with pytest.raises(BadFile, match="a file of 102 bytes is over the limit of 50"):
        read_json(file)
