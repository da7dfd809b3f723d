"""A whole job: built from a scenario, run, restarted, and its results."""
