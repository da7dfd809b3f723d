"""The engine of a run, the same each time: the agenda, its timers, random numbers from the seed."""
