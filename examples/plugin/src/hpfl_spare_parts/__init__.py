"""One part of every kind that HPFL can be given from outside."""
