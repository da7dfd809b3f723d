"""A whole job: built from a scenario, run, restarted, summed up."""
