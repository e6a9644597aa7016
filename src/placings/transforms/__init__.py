"""Transforms: what may be done to a feature before a ranker sees it; fitted in numpy, run in torch."""
