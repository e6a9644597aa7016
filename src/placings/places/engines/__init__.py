"""Engines that answer a text with places: SQLite embedded, PostgreSQL, Pelias, OpenSearch."""
