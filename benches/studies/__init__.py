"""Finished studies, in a form that reproduces the numbers in the documents about them."""
