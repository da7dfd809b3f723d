"""Connections between processes: listening, handshake, limits, sending and receiving."""
