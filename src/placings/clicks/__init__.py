"""Clicks: logs of what was shown and what was done with it."""
