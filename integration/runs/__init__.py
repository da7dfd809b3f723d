"""Runs of a scenario: its sources opened, with many seeds, beside what was computed without a run."""
