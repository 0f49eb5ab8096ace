"""Checks for plugin authors: does an environment, agent, metric set or suite keep its contract?"""

from l2bench.testing.checks import check_agent, check_environment, check_metric_set, check_suite

__all__ = ["check_agent", "check_environment", "check_metric_set", "check_suite"]
