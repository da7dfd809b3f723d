"""Views and Arrow tables for notebooks."""
