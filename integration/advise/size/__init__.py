"""Buffers, network memory, data in flight and drain times of a job, and plans for its memory."""
