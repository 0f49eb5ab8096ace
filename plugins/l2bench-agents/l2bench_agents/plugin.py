"""What L2bench finds through the entry point ``agents``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from l2bench.hookspecs import hookimpl


@hookimpl
def l2bench_agents() -> Mapping[str, str]:
    """Return the agents by name; torch is imported when one that needs it is used."""
    return {
        "bc": "l2bench_agents.bc:BehaviourCloning",
        "bc_rnn": "l2bench_agents.bc:BcRnn",
        "bc_transformer": "l2bench_agents.bc:BcTransformer",
        "bc_vilt": "l2bench_agents.bc:BcVilt",
        "remote": "l2bench_agents.remote:Remote",
        "zero": "l2bench_agents.zero:Zero",
    }


@hookimpl
def l2bench_configs() -> Mapping[str, Path]:
    """Return the folder with settings for each policy and algorithm, as config group ``agent``."""
    return {"settings": Path(__file__).parent / "conf"}
