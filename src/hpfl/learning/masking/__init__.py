"""Sums under masks: updates as whole numbers, so that masks that cancel leave the exact sum of a cell."""
