"""Figures of runs and checkpoints, and comparisons by them: with a real Flink, and of two results."""
