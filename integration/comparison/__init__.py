"""Our numbers beside a real Flink's."""
