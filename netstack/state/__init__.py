"""The state of operators, and snapshots of it."""
