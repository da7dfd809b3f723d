"""What a run is told: scenarios, options of Flink, costs, quantities."""
