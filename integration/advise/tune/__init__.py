"""Tuning: settings run against each other, the recommended one, and its change as files."""
