"""The exchange of records between subtasks, from a result partition to an input gate."""
