"""What benchmarks can fail with."""


class BenchmarkError(Exception):
    """A benchmark could not be run; the message is one line that says why."""
