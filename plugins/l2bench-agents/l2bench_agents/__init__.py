"""Agents with neural networks for L2bench."""

__version__ = "0.1.0"
