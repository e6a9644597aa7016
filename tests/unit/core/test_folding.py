"""Folded texts and their spellings."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placings.core.folding import (
    drop_brackets,
    fold_letters,
    fold_text,
    give_spellings,
    spell_once,
    spell_out,
)


def test_case_accents_and_sharp_s_are_folded() -> None:
    assert fold_text("Große ALLEE") == fold_text("GROẞE allée") == "grosse allee"
    assert fold_text("Østerbro") == "osterbro"
    assert fold_text("İstanbul") == "istanbul"


def test_composed_and_decomposed_accents_fold_alike() -> None:
    assert fold_text("Z\u00fcrich") == fold_text("Zu\u0308rich") == "zurich"


def test_signs_part_words_but_apostrophes_vanish() -> None:
    assert fold_text(" a/b,\t(c) _ d") == "a b c d"
    assert fold_text("O'Fallon") == fold_text("O’Fallon") == "ofallon"


def test_other_scripts_keep_their_letters_and_vowel_signs() -> None:
    assert fold_text("दिल्ली 1") == "दिल्ली 1"
    assert fold_text("カブ") == "カブ"  # the voiced mark makes another letter
    assert fold_text("서울") == "서울"
    assert fold_text("Москва") == "москва"


def test_letters_of_formulas_are_letters() -> None:
    assert fold_text("𝓐𝕭 Ⅷ ㎒") == "ab viii mhz"


@given(st.text())
@example("𝓐")
@example("ŉẚ")
def test_folding_twice_changes_nothing(text: str) -> None:
    once = fold_text(text)
    assert fold_text(once) == once
    assert once == " ".join(once.split())


def test_spellings_write_abbreviations_out_and_umlauts_apart() -> None:
    assert give_spellings("Kaiserstr. 12") == ("kaiserstrasse 12",)
    assert give_spellings("kaiserstr 12") == ("kaiserstr 12", "kaiserstrasse 12")
    assert give_spellings("St. Ives") == ("st ives", "saint ives")
    assert set(give_spellings("Mühlacker")) == {"muhlacker", "muehlacker"}
    assert give_spellings("( )") == ()


@given(st.text())
def test_the_first_spelling_is_the_folded_text_and_none_comes_twice(text: str) -> None:
    found = give_spellings(text)
    assert found[:1] == ((fold_text(text),) if fold_text(text) else ())
    assert len(set(found)) == len(found)


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


def test_umlauts_are_a_letter_and_two_letters() -> None:
    assert give_spellings("Müller") == ("muller", "mueller")
    assert give_spellings("Mu\u0308ller") == ("muller", "mueller")
    assert give_spellings("Ørsted å") == ("orsted a", "oersted aa")
    assert give_spellings("plain") == ("plain",)
    assert give_spellings("★") == ()


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


def test_marks_in_another_order_and_half_width_kana_fold_alike() -> None:
    assert fold_text("الر\u0651\u064eس") == fold_text("الر\u064e\u0651س")  # shadda and fatha
    assert fold_text("ｲﾜﾐｻﾞﾜ") == fold_text("イワミザワ") == "イワミザワ"


def test_bare_spellings_leave_out_what_stands_in_brackets() -> None:
    assert give_spellings("Höfen(Enz) Bf") == (
        "hofen enz bf", "hofen enz bahnhof", "hoefen enz bf", "hoefen enz bahnhof",
    )  # fmt: skip
    added = set(give_spellings("Höfen(Enz) Bf", bare=True)) - set(give_spellings("Höfen(Enz) Bf"))
    assert added == {"hofen bf", "hofen bahnhof"}


@given(st.text(max_size=60))
def test_spellings_remembered_or_not_are_the_same(text: str) -> None:
    assert spell_once(text) == give_spellings(text)


def test_folded_letters_keep_their_signs() -> None:
    assert fold_letters("Frankfurt(Main), Étoile-Str.") == "frankfurt(main), etoile-str."
    assert fold_text("Frankfurt(Main), Étoile-Str.") == "frankfurt main etoile strasse"


def test_few_long_texts_are_remembered_and_very_long_ones_not_at_all() -> None:
    for function in (fold_text, fold_letters, give_spellings):
        function.cache_clear()  # type: ignore[attr-defined]
        for number in range(20):
            function(f"{number}" + "x" * 5000)
            function(f"{number}" + "x" * 200)
        assert function.cache_info().currsize == 0  # type: ignore[attr-defined]
        assert function("ulm") in ("ulm", ("ulm",))
        assert function.cache_info().currsize == 1  # type: ignore[attr-defined]
