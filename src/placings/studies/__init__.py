"""Studies: the documents' experiments, each one command."""
