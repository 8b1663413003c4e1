"""Data sets, and how UEs share them."""
