"""Ranking data: how rows and queries are held, read, split, checked and made."""
