"""Results of a run, the samples that they are computed from, and traces."""
