"""Metric sets: pure functions on tables and arrays, and what they return."""
