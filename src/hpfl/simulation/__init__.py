"""Runs the round in virtual time."""
