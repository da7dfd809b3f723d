"""Connections between processes: who may connect, and what an established connection is held to."""
