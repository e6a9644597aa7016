"""Rankers: one estimator interface over linear models, trees and neural networks."""
