"""Finished studies, in the form that repeats the numbers of their documents."""
