"""What goes wrong in a run, and how it is made to happen."""
