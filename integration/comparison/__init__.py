"""Comparison of a run with a real Flink and of two results, and the figures that are compared."""
