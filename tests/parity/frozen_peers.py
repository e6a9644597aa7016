"""What libraries that cannot live in the test environment say of the rule cases, taken once.

Made by `freeze_peers.py` (the commands stand in its head) on 2026-11-15 with Python 3.11.7,
tensorflow-ranking 0.5.5 on tensorflow 2.15.1, and rax 0.4.0 on jax 0.5.3; "random" was asked 20 times
and answered differently. Values are float32, rounded to 7 digits.
"""

FROZEN = {
    "TF-Ranking": {
        "ndcg": {"order": 0.6166463, "cut": 0.1124507, "ties": "random", "empty": 0.3083232},
        "map": {"order": 0.5333334, "cut": 0.1666667, "ties": "random", "empty": 0.2666667},
        "mrr": {"order": 0.5, "cut": 0.0, "ties": "random", "empty": 0.25},
    },
    "Rax": {
        "ndcg": {"order": 0.6166464, "cut": 0.1124507, "ties": 0.6574534, "empty": 0.3083232},
        "map": {"order": 0.5333334, "cut": 0.1666667, "ties": 0.4479035, "empty": 0.2666667},
        "mrr": {"order": 0.5, "cut": 0.0, "ties": 0.5, "empty": 0.25},
    },
}
