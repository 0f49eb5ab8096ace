"""L2bench: the benchmark suite for lifelong learning."""

__version__ = "0.1.0"
