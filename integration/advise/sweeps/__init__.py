"""Sweeps: many emulations of a job, over its axes and with several seeds, in processes or over Spark."""
