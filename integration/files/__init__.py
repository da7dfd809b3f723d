"""Input files of users, read within limits, and output files, written completely or not at all."""
