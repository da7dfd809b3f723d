"""Diagnosis of a job from its metrics: one table of rules, for emulated results and for Flink jobs."""
