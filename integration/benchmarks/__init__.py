"""Micro-benchmarks: the cases of flink-benchmarks, those of this project, and the harness that runs them."""
