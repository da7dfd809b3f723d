"""A search over Spark for debloating rules that are better than FLIP-183's; `__main__` says how to run it."""
