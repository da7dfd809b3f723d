"""What a result says, worked out in one place for all that print it."""
