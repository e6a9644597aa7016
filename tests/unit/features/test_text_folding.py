"""Folded texts and their spellings."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from placings.features.folding import fold_text, give_spellings


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
