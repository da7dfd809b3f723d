"""What Spark reads, as a source of records."""
