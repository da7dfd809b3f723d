"""Results of a run, the samples they are made of, traces."""
