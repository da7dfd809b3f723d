"""Many emulations of a job over Spark, and what they say about the settings it should have."""
