"""Shipped configurations, one TOML file each."""
