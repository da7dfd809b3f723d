"""Checkpoints in a directory: storing them, and checking what lies there."""
