"""Tiny lists that tell one rule from another. No imports: peers' own environments read this file too."""

FALLING = [5.0, 4.0, 3.0, 2.0, 1.0]
TIED = [1.0] * 40  # long enough for a sort that is not stable to show
NOTHING = [0, 0, 0, 0, 0]

# metric → case → (queries as (scores, labels), cutoff)
CASES = {
    "ndcg": {
        "order": ([(FALLING, [1, 0, 3, 2, 0])], None),
        "cut": ([(FALLING, [1, 0, 3, 2, 0])], 2),
        "ties": ([(TIED, [1, 0, 3, 2, 0] * 8)], None),
        "empty": ([(FALLING, NOTHING), (FALLING, [1, 0, 3, 2, 0])], None),
    },
    "map": {
        "order": ([(FALLING, [0, 1, 0, 1, 1])], None),
        "cut": ([(FALLING, [0, 1, 0, 1, 1])], 2),
        "ties": ([(TIED, [0, 1, 1, 0, 0] * 8)], None),
        "empty": ([(FALLING, NOTHING), (FALLING, [0, 1, 0, 1, 1])], None),
    },
    "mrr": {
        "order": ([(FALLING, [0, 1, 0, 1, 1])], None),
        "cut": ([(FALLING, [0, 1, 0, 1, 1])], 1),
        "ties": ([(TIED, [0, 1, 1, 0, 0] * 8)], None),
        "empty": ([(FALLING, NOTHING), (FALLING, [0, 1, 0, 1, 1])], None),
    },
}
