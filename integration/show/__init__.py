"""Presentation on terminals, as JSON, in charts, pages and notebooks. Only this package prints."""
