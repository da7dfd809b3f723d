"""What is wrong with a job, judged by its metrics: rules over one view of a result or of a Flink job."""
