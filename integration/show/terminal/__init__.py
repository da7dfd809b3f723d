"""Texts, tables, JSON documents and progress on a terminal; pages and notebooks use its texts and rows."""
