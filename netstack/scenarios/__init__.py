"""What a run is told: the model of a scenario, its reader, writer and rules, options of Flink, faults."""
