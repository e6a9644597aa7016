"""The ready sets of features for places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.places.presets import (
    find_features,
    name_left_out,
    place_features,
    thesis_features,
    thesis_pipeline,
    write_features,
)


@pytest.fixture
def rows() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "search_id": ["s1"] * 3 + ["s2"] * 2,
            "time": pd.to_datetime(["2026-05-01T08:10"] * 3 + ["2026-05-02T22:10"] * 2),
            "query": ["haupt"] * 3 + ["markt bruchsal"] * 2,
            "focus_lat": [49.0] * 3 + [np.nan] * 2,
            "focus_lon": [8.4] * 3 + [np.nan] * 2,
            "target": ["origin"] * 3 + [None] * 2,
            "platform": ["ios"] * 3 + ["web"] * 2,
            "item_id": list("abcab"),
            "position": [1, 2, 3, 1, 2],
            "score": [3.0, 2.0, 1.0, 9.0, 1.0],
            "name": ["Hauptstraße", "Hauptbahnhof", "Alte Hauptpost", "Markt", "Markt"],
            "locality": ["Karlsruhe", "Karlsruhe", None, "Rastatt", "Bruchsal"],
            "street": [None] * 5,
            "type": ["address", "stop", "poi", "stop", "stop"],
            "lat": [49.01, 49.0, 49.1, 48.9, 49.1],
            "lon": [8.4, 8.4, 8.5, 8.2, 8.6],
            "weight": [0.1, 20.0, 1.0, 2.0, 1.0],
            "label": [0.0, 1.0, 0.0, 0.0, 1.0],
        }
    )
    return frame


def test_the_default_is_dense_named_and_tells_what_it_left_out(rows: pd.DataFrame) -> None:
    features = place_features().fit(rows)
    found = features.transform(rows)
    assert isinstance(found, np.ndarray)
    assert 45 <= len(features.names) <= 60
    assert set(features.kinds) == {"item", "context", "query", "query-item"}
    assert any("'street'" in note for note in features.notes)
    column = {name: found[:, place] for place, name in enumerate(features.names)}
    assert column["tier_weight_rank"].tolist() == [2, 1, 1, 1, 1]  # Hauptbahnhof before Hauptstraße
    assert column["locality_left"][3:].tolist() == [0, 1]  # the word that says which Markt
    assert np.isnan(column["distance_km"][3:]).all()
    assert column["type=stop"].tolist() == [0, 1, 0, 1, 1]


def test_parts_can_be_left_out_and_coordinates_added(rows: pd.DataFrame) -> None:
    bare = place_features(engine=False, clock=False).fit(rows)
    assert not {"rank", "score", "hour_sin"} & set(bare.names)
    assert {"lat", "lon", "focus_lat", "focus_lon"} <= set(place_features(coordinates=True).fit(rows).names)


def test_the_hour_is_that_of_the_places_zone(rows: pd.DataFrame) -> None:
    berlin = (
        place_features().fit(rows.assign(zone="Europe/Berlin")).transform(rows.assign(zone="Europe/Berlin"))
    )
    given = place_features(zone="Europe/Berlin").fit(rows).transform(rows)
    np.testing.assert_array_equal(berlin, given)


def test_the_thesis_columns_are_the_same_in_both_forms(rows: pd.DataFrame) -> None:
    features = thesis_features(64, zone="Europe/Berlin").fit(rows)
    ours = features.transform(rows).toarray()
    pipeline = thesis_pipeline(64, zone="Europe/Berlin")
    theirs = pipeline.fit_transform(rows).toarray()
    plain = [place for place, name in enumerate(features.names) if not name.startswith(("type=", "target="))]
    np.testing.assert_allclose(ours[:, plain], theirs[:, -len(plain) :], rtol=1e-6)
    assert len(plain) == 4 + 7 + 1 + 3 * 64  # query, name and locality have data
    assert name_left_out(pipeline) == ["street", "neighbourhood", "borough"]
    assert [note.split()[3] for note in features.notes] == ["street", "neighbourhood", "borough"]
    np.testing.assert_allclose(pipeline.transform(rows[:2]).toarray(), theirs[:2])


def test_the_thesis_width_is_a_block_of_2_to_the_20_a_text(rows: pd.DataFrame) -> None:
    assert thesis_pipeline().fit_transform(rows).shape[1] == 3 * 2**20 + 12 + 3 + 2
    assert sum(each.width() for each in thesis_features().fit(rows).fitted) == 3 * 2**20 + 12 + 4 + 2


def test_counted_columns_keep_their_names_up_to_a_number(rows: pd.DataFrame) -> None:
    features = thesis_features(30, "count").fit(rows)
    assert "name:au" in features.names
    assert sum(name.startswith("name:") for name in features.names) == 30
    with pytest.raises(BadInput, match='"hash" or "count"'):
        thesis_features(how="tfidf")


def test_features_are_found_by_name_or_file(rows: pd.DataFrame, tmp_path: Path) -> None:
    fitted = find_features("places", rows)
    write_features(fitted, tmp_path / "features.json")
    again = find_features(tmp_path / "features.json", rows)
    np.testing.assert_array_equal(again.transform(rows), fitted.transform(rows))
    assert "weight" in find_features("shop", rows).names
    with pytest.raises(UnknownName, match="did you mean 'places'"):
        find_features("place", rows)
