"""Subtasks: what they run, and what that costs."""
