"""Scenarios: their model, reading, writing and rules; Flink's options; faults."""
