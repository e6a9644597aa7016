"""What the name leaves of the query, and where an item stands among its equals."""

from __future__ import annotations

from typing import Any

import numpy as np

from placings.features.fields import FieldMatch, QueryCover
from placings.features.spec import Feature, FeatureSet
from placings.features.standing import Standing


def compute(feature: Feature, **columns: Any) -> np.ndarray:
    return np.asarray(FeatureSet([feature]).fit_transform(columns))


def test_the_locality_explains_the_words_that_the_name_does_not() -> None:
    found = compute(
        FieldMatch("locality", ("match", "left")),
        query=["markt bruchsal", "markt bruchsal", "bruchsal", "markt"],
        name=["Markt", "Markt", "Bruchsal Schloss", "Markt"],
        locality=["Bruchsal", "Rastatt", "Bruchsal", None],
    )
    # the third name explains all words itself: nothing is left to ask the locality for
    np.testing.assert_array_equal(found, [[0.5, 1], [0, 0], [1, np.nan], [np.nan, np.nan]])


def test_a_name_is_the_query_but_for_its_locality() -> None:
    found = compute(
        FieldMatch("locality", ("core_exact",)),
        query=["schloss", "Schloss Bruchsal", "Bruchsal Schloss", "bruchsal", "bruchsal", "schlo"],
        name=["Schloss, Bruchsal"] * 4 + ["Bruchsal", "Schloss, Bruchsal"],
        locality=["Bruchsal"] * 6,
    )
    assert found[:, 0].tolist() == [1, 1, 1, 0, 1, 0]


def test_abbreviations_in_query_or_name_are_the_same_place() -> None:
    found = compute(
        FieldMatch("locality"),
        query=["hauptbahnhof", "hbf karlsruhe"],
        name=["Hbf, Karlsruhe", "Hauptbahnhof"],
        locality=["Karlsruhe", "Karlsruhe"],
    )
    np.testing.assert_array_equal(found[:, 2], [1, 1])
    np.testing.assert_array_equal(found[:, 1], [np.nan, 1])


def test_the_cover_of_a_query_takes_all_fields_together() -> None:
    found = compute(
        QueryCover(("locality", "street")),
        query=["cafe kaiser karls x", "cafe", None],
        name=["Café Emaille", "Bar", "Bar"],
        locality=["Karlsruhe", "", ""],
        street=["Kaiserstraße", None, None],
    )
    np.testing.assert_array_equal(found, [[0.75, 3], [0, 1], [np.nan, np.nan]])


def test_tiers_rank_weight_and_distance_among_equals() -> None:
    found = compute(
        Standing(),
        query=["ulm"] * 5,
        name=["Ulm", "Ulm", "Ulmen", "Alt Ulm", "Rom"],
        weight=[5.0, 9.0, 100.0, None, 1.0],
        lat=[48.4, 10.0, 50.0, 50.0, 50.0],
        lon=[9.9, 10.0, 9.0, 9.0, 9.0],
        focus_lat=[48.4] * 5,
        focus_lon=[9.9] * 5,
    )
    np.testing.assert_array_equal(
        found,
        [[3, 1, 2, 2, 1], [3, 1, 2, 1, 2], [2, 0, 1, 1, 1], [1, 0, 1, np.nan, 1], [0, 0, 1, 1, 1]],
    )


def test_a_name_beside_its_locality_is_in_the_highest_tier() -> None:
    found = compute(Standing(("tier",)), query=["markt"], name=["Markt, Ulm"], locality=["Ulm"])
    assert found[0, 0] == 3
    assert np.isnan(compute(Standing(("tier", "tier_size")), query=[""], name=["Ulm"])).all()
