"""Files, progress, figures: everything that only watches a run."""
