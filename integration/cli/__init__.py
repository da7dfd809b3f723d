"""The commands of the command line, and their shared options, preparation and error reports."""
