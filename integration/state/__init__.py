"""State that is kept in files while a job runs."""
