"""The settings that come with the plugin: every one composes, and makes an agent."""

import itertools
from pathlib import Path

import pytest
import yaml

import l2bench_agents
from l2bench.cli.compose import compose
from l2bench.plugins import Registry
from l2bench.suite import judge
from l2bench_agents.algorithms import ALGORITHMS

FOLDER = Path(l2bench_agents.__file__).parent / "conf" / "agent"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
KINDS = ("mlp", "libero_rnn", "libero_transformer", "libero_vilt")


def test_there_is_one_for_each_policy_and_algorithm():
    assert sorted(f"{kind}_{name}" for kind, name in itertools.product(KINDS, ALGORITHMS)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_those_of_the_agent_they_name(name):
    written = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    agent = Registry().resolve("agents", written["name"])
    settings = judge(agent.Settings, written["settings"], name)
    kind, _, policy = name.partition("_")
    assert settings.policy == ("mlp" if kind == "mlp" else policy.partition("_")[0])
    assert name.endswith(f"_{settings.algorithm}")


def test_a_suite_takes_them_by_name_and_overrides_go_on_top():
    composed = compose(Registry(), "quickstart", ["+agent=libero_rnn_ewc"])
    assert composed.agent.name == "agents/bc_rnn"
    assert composed.agent.settings["algorithm"] == "ewc"
    assert composed.agent.settings["ewc"] == {"strength": 50000.0, "decay": 0.9}
    changed = compose(
        Registry(), "quickstart", ["+agent=libero_rnn_ewc", "agent.settings.ewc.strength=10"]
    )
    assert changed.agent.settings["ewc"]["strength"] == 10


def test_published_numbers_are_the_defaults():
    settings = Registry().resolve("agents", "agents/bc_transformer").Settings()
    assert (settings.learning_rate, settings.final_rate, settings.weight_decay) == (
        1e-4,
        1e-5,
        1e-4,
    )
    assert (settings.batch_size, settings.clip_gradient, settings.length) == (32, 100.0, 10)
    assert (settings.memory_count, settings.memory_batch) == (1000, 32)
    assert (settings.gmm.modes, settings.gmm.min_std, settings.augment) == (5, 1e-4, True)
