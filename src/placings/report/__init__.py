"""Figures and pages for people (`pip install 'placings[report]'`)."""
