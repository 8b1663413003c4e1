"""The radio and the machines, as arrays: who is there, how far, how fast."""
