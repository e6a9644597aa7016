"""Evaluation: how good, how sure, better than what, and where it is worse."""
