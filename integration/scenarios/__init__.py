"""Scenario and result files, and every mistake in them."""
