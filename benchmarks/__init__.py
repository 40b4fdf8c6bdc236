"""What a step, a long run and an import cost, beside bare SQLite commits and DBOS."""
