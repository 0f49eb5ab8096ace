"""The bundle: one lifetime on disk, written by the runner and read by everything else."""
