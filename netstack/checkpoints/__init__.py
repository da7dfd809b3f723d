"""Checkpoints: who triggers them, what a subtask does for them, where they are stored."""
