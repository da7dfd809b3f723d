"""Advice for a job, one folder for each question.

- `diagnose`: what limits a job, and what do its checkpoints wait for?
- `tune`: what should be set, what does it cost, and was the promise kept?
- `forecast`: how much load can a job take, and how does it catch up after an outage?
- `size`: how much memory does a job need?
- `lint`: are the options of a configuration file right?
- `sweeps`: many emulations of a job, on which the others are built.
"""
