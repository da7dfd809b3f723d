"""Access to Flink's REST API: requests, limits, and the shapes of answers."""
