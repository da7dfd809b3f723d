"""From a result partition to an input gate: what carries records between subtasks."""
