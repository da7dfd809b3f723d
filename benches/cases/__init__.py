"""Micro-benchmarks: the cases of flink-benchmarks and those of this project, run by pytest-benchmark."""
