"""Flink configuration files, checked for the network layer and checkpoints."""
