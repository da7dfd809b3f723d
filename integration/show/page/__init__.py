"""HTML pages, and the files of their charts."""
