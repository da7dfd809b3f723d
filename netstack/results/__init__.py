"""What a run tells: results, the samples they are made of, traces."""
