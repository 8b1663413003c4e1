"""Studies: many runs side by side, from a sweep to a table, a picture and a verdict."""
