"""The main job, on real data."""
