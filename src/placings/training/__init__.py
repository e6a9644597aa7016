"""Training: packed batches and the readable loop."""
