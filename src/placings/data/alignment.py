"""Data brought to the features that something was trained on."""

from __future__ import annotations

from placings.core import BadInput
from placings.data.ranking import RankingData


def align_features(data: RankingData, names: tuple[str, ...], who: str = "ranker was trained") -> RankingData:
    """The same rows with just these features in this order; what is lacking is named."""
    if data.feature_names == names:
        return data
    lacking = [name for name in names if name not in set(data.feature_names)]
    if lacking:
        shown = ", ".join(map(repr, lacking[:5])) + (" …" if len(lacking) > 5 else "")
        raise BadInput(
            f"the {who} on {len(names)} features; the data lack {len(lacking)}: {shown}. "
            "Rename the columns, or give them as missing (NaN)."
        )
    return data.select(names)
