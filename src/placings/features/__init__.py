"""Features declared once, computed the same from a log and for one live request."""
