"""The state of operators, and its snapshots."""
