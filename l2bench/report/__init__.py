"""Reports: one self-contained page, and a table for the terminal, from the same summary."""
