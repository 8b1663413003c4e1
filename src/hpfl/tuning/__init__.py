"""A search for the best values of keys, one for each case of a study: `hpfl tune`, `hpfl.tune`."""
