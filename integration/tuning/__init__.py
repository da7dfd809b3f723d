"""Sweeps: many emulations of a job over Spark, and the settings that their results recommend."""
