"""Leaderboards: a folder of checked submissions, and the pages made of it."""
