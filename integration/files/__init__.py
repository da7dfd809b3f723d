"""Files that people name and get: read within bounds, written whole."""
