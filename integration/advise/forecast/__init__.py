"""Forecast of a job: the load that it can take, its limit, and its way back after an outage."""
