"""Checks of Flink configuration files."""
