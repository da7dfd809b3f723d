"""Scenarios: their model, reader, writer and rules, options of Flink, faults."""
