"""Checking: bundles and submissions scored again and compared, rule by rule."""
