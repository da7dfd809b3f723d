"""Scenarios over the tasks of a Spark barrier stage: one process for each task manager, connected by TCP."""
