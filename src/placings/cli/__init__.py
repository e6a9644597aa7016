"""The terminal: one file per command, each parses, calls and prints."""
