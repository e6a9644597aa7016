"""One spelling for names and queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placings.features import folding
from placings.places.folding import (
    drop_brackets,
    fold_all,
    fold_text,
    give_spellings,
    spell_out,
    split_locality,
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("GROSSE Straße", "grosse strasse"),
        ("Große Str.", "grosse strasse"),
        ("Kaiserstr.12", "kaiserstrasse 12"),
        ("Köln", "koln"),
        ("Ko\u0308ln", "koln"),
        ("Łódź Århus Ærø Þingvellir Diyarbakır", "lodz arhus aero thingvellir diyarbakir"),
        ("Lee's Lee’s Lee´s", "lees lees lees"),
        ("Winston–Salem/Nord (U)", "winston salem nord u"),
        ("Москва́ Йошкар", "москва иошкар"),
        ("म्यूनिख", "म्यूनिख"),
        ("서울 東京", "서울 東京"),
        ("ﬁve ①", "five 1"),
        ("under_score", "under score"),
        ("\x00 😀 ★ \ud800", ""),
        ("line\nbreak\u2028and\ttab", "line break and tab"),
        ("", ""),
    ],
)
def test_case_accents_and_signs_do_not_matter(text: str, folded: str) -> None:
    assert fold_text(text) == folded


def test_many_fold_as_one_by_one_does() -> None:
    texts = ["Köln", "plain", "", "two\nlines", "Straße", "a\x00b", "ИЖЕВСК"]
    assert fold_all(texts) == [fold_text(text) for text in texts]
    assert fold_all([]) == []


def test_umlauts_are_a_letter_and_two_letters() -> None:
    assert give_spellings("Müller") == ["muller", "mueller"]
    assert give_spellings("Mu\u0308ller") == ["muller", "mueller"]
    assert give_spellings("Ørsted å") == ["orsted a", "oersted aa"]
    assert give_spellings("plain") == ["plain"]
    assert give_spellings("★") == []


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("karlsruhe hbf", "karlsruhe hauptbahnhof"),
        ("bf west", "bahnhof west"),
        ("kaiserstr", "kaiserstrasse"),
        ("str des 17 juni", "strasse des 17 juni"),
        ("st louis", "saint louis"),
        ("best str8 dostr", "best str8 dostr"),
        ("ost", "ost"),
    ],
)
def test_abbreviations_are_written_out_as_whole_words(short: str, long: str) -> None:
    assert spell_out(short) == long


def test_a_locality_behind_the_last_comma_is_cut_off_and_nothing_else() -> None:
    assert split_locality("Schanzstraße, Wiernsheim", "Wiernsheim") == "Schanzstraße"
    assert split_locality("A, B, Ulm", "Ulm") == "A, B"
    assert split_locality("A, B", "Ulm") == "A, B"
    assert split_locality(", Ulm", "Ulm") == ", Ulm"
    assert split_locality("Ulm", "Ulm") == "Ulm"


def test_brackets_go_also_where_one_is_missing() -> None:
    assert drop_brackets("Frankfurt(Main)Hbf") == "Frankfurt Hbf"
    assert drop_brackets("Malsch (Kreis Karlsruhe") == "Malsch"
    assert drop_brackets("(U)") == "(U)"


@given(st.text(max_size=60))
def test_a_folded_text_holds_words_only_and_folds_to_itself(text: str) -> None:
    folded = fold_text(text)
    assert folded == " ".join(folded.split())
    assert not set(folded) & set("\"'*^:(){}[]-+.,;\x00·")
    assert fold_text(folded) == folded


def test_engines_and_features_fold_alike() -> None:
    texts = [
        "Köln Hbf", "Karlsr. Str.", "Frankfurt(Main)Süd", "L'Aquila", "São Paulo", "Москва", "東京", "ẞäöü",
        "マイアンガ", "A-B/C", "ŁÓDŹ", "İstanbul", "Æbelø", "Đà Nẵng", "Ho Chi Minh\u00a0City", "O’Neill",
        "नई दिल्ली", "فیئرفیلڈ، نیو", "?!",
    ]  # fmt: skip
    assert [folding.fold_text(text) for text in texts] == [fold_text(text) for text in texts]
