"""What a cluster says of a job: its plan and options, samples of its metrics, its checkpoints."""
