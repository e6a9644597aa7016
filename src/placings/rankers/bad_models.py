"""The refusal that the checks of tree files share."""

from __future__ import annotations


class BadModel(ValueError):
    """What is wrong with a model's file, before its library sees it."""
