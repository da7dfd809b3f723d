"""Checkpoints of a job: coordinator, storage, recovery, rescaling, savepoints."""
