"""Hierarchical personalised federated learning over mobile edge networks."""

__version__ = "0.1.0"
