"""What makes a run go on, the same each time: the agenda, its timers, random numbers from the seed."""
