"""Random jobs with random faults, checked for exactly-once."""
