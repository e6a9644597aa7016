"""Character n-grams, hashed and counted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from placings.core.errors import BadInput
from placings.features.ngrams import CountedNgrams, HashedNgrams
from placings.features.spec import FeatureSet
from placings.features.text import TextShape

NAMES = ["Karlsruhe", "Ruhstorf", None, "Karlsruhe", "Am Markt"]


def test_hashed_columns_are_those_of_scikit_learn() -> None:
    found = FeatureSet([HashedNgrams("name", buckets=256)]).fit_transform({"name": NAMES})
    plain = HashingVectorizer(n_features=256, analyzer="char_wb", ngram_range=(2, 5)).transform(
        [name or "" for name in NAMES]
    )
    np.testing.assert_allclose(found.toarray(), plain.toarray(), rtol=1e-6)
    assert found.dtype == np.float32
    assert found[[2]].nnz == 0


def test_counted_columns_are_those_of_scikit_learn_with_their_names() -> None:
    features = FeatureSet([CountedNgrams("name")]).fit({"name": NAMES})
    counter = CountVectorizer(analyzer="char_wb", ngram_range=(2, 5))
    plain = counter.fit_transform([name or "" for name in NAMES])
    assert features.names == [f"name:{gram}" for gram in counter.get_feature_names_out()]
    np.testing.assert_array_equal(features.transform({"name": NAMES}).toarray(), plain.toarray())
    assert "name:ruh" in features.names


def test_limits_keep_the_most_frequent_over_rows_not_texts() -> None:
    names = ["aa", "aa", "aa", "bb", "cc"]
    kept = FeatureSet([CountedNgrams("name", shortest=2, longest=2, limit=3)]).fit({"name": names})
    assert kept.names == ["name: a", "name:a ", "name:aa"]
    often = FeatureSet([CountedNgrams("name", shortest=4, longest=4, at_least=2)]).fit({"name": names})
    assert often.names == ["name: aa "]


def test_n_grams_never_seen_are_ignored() -> None:
    features = FeatureSet([CountedNgrams("name")]).fit({"name": ["Ulm"]})
    assert features.transform({"name": ["zzz"]}).nnz == 0


def test_no_text_gives_no_vocabulary() -> None:
    features = FeatureSet([CountedNgrams("name"), TextShape("query")]).fit({"name": [None], "query": ["x"]})
    assert features.transform({"name": ["Ulm"], "query": ["x"]}).shape == (1, 3)


@pytest.mark.parametrize("name", [" ", "\t \n", ""])
def test_blanks_alone_give_no_vocabulary(name: str) -> None:
    features = FeatureSet([CountedNgrams("name")]).fit({"name": [name, None]})
    assert features.names == []
    assert features.transform({"name": [name, "Ruh"]}).shape == (2, 0)


def test_folding_makes_accents_equal() -> None:
    folded = FeatureSet([HashedNgrams("name", buckets=64, fold=True)]).fit({"name": ["x"]})
    found = folded.transform({"name": ["Zürich", "ZURICH"]}).toarray()
    np.testing.assert_array_equal(found[0], found[1])


def test_settings_of_n_grams_are_checked() -> None:
    with pytest.raises(BadInput, match="Got 5 to 2"):
        HashedNgrams("name", shortest=5, longest=2)
    with pytest.raises(BadInput, match="buckets must be"):
        HashedNgrams("name", buckets=10**12)
    with pytest.raises(BadInput, match="at least 1"):
        CountedNgrams("name", limit=0)
    with pytest.raises(BadInput, match="Call fit"):
        CountedNgrams("name").names()
