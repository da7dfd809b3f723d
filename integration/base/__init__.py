"""What all of the package uses: errors, files, numbers as text, signals, optional dependencies."""
