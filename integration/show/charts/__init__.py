"""Charts of runs, tunings and forecasts, as specifications for altair."""
