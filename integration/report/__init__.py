"""What a run comes to: pictures, a page, tables, sentences."""
