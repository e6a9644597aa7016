"""Feature coverage (FeCo): how often a feature has a value, where it stopped, and what that costs."""
