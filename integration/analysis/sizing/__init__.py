"""What a job needs and what waits in it, by arithmetic, with the emulation beside it."""
