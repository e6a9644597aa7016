"""Rankers: one estimator interface over linear models, trees and neural networks."""

from placings.core.doors import open_door

__getattr__, __dir__, __all__ = open_door(__name__)
