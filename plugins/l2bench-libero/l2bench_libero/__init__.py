"""LIBERO for L2bench: tasks, simulator, scripted experts and demonstrations."""

__version__ = "0.1.0"
