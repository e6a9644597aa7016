"""Places: engines that find them, people who look for them, and a re-ranker for both."""
