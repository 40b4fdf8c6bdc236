"""Storage in SQL databases: one store over named statements, one dialect per database."""
