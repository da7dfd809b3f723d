"""Comparison of a run with a real Flink or with another run."""
