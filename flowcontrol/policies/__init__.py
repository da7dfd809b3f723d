"""Debloating policies: Flink's own, and others to compare it with.

`flink` comes first; the others say what they do otherwise. `registry` knows them by name.
"""
