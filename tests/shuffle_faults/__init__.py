"""Shuffles under faults that are drawn from seeds; see `__main__`."""
