"""Texts, tables and progress on a terminal."""
