"""What real Flink clusters have: running jobs, read over REST, and configuration files, checked."""
