"""Losses: scores, labels and a mask in, one loss a query out."""

from placings.core.doors import open_door
from placings.core.errors import MissingExtra

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("a loss", "PyTorch", "neural") from error

__getattr__, __dir__, __all__ = open_door(__name__)
