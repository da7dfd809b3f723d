"""Diagnosis of a job by its metrics: one table of rules over one view of a result or of a Flink job."""
