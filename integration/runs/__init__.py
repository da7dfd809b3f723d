"""Runs of a job: emulation, seeds and processes, the figures of a run, and comparisons."""
