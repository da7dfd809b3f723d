"""Figures of runs and Flink jobs: times of checkpoints, figures of windows, missing values."""
