"""Subtasks: their operators, sources and costs."""
