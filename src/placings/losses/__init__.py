"""Losses: scores, labels and a mask in, one loss a query out."""
