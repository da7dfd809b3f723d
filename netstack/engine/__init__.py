"""The engine of a deterministic run: the agenda, its timers, random numbers from the seed."""
