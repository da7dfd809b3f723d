"""Benchmarks of the hot paths, as pytest-benchmark cases, and of whole jobs."""
