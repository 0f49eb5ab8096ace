"""Saved states: exact resumption, the choice of a checkpoint, and what the files are."""

import json

import numpy as np
import pytest
import torch

from l2bench.errors import Unsupported
from l2bench_agents.algorithms import ALGORITHMS as ALL

ALGORITHMS = pytest.mark.parametrize("algorithm", sorted(ALL))
HIDDEN = [name for name, kind in ALL.items() if not kind.needs_identity | kind.needs_boundaries]


SHORT = {"packnet": {"epochs": 2}}


def reborn(teacher, agent, folder, **settings):
    """Return a new agent in the state of another."""
    folder.mkdir()
    agent.save(folder)
    other = teacher.agent(**settings)
    other.load(folder)
    assert other.fingerprint() == agent.fingerprint()
    return other


@pytest.mark.parametrize(
    "algorithm, revealed", [(name, True) for name in ALL] + [(name, False) for name in HIDDEN]
)
def test_resuming_after_any_lesson_changes_no_bit(school, tmp_path, algorithm, revealed):
    teacher = school(revealed=revealed)
    settings = {"algorithm": algorithm, "memory_part": 0.3, "hidden": (32, 16), **SHORT}
    unbroken = teacher.agent(**settings)
    broken = teacher.agent(**settings)
    for task in (0, 1, 0):
        for start in (0, 5):
            losses = []
            for agent in (unbroken, broken):
                lesson = teacher.teach(
                    agent, task, epochs=10, start=start, stop=start + 5, close=False
                )
                losses.append(lesson.series)
            assert losses[0] == losses[1]
            broken = reborn(
                teacher, broken, tmp_path / f"{len(list(tmp_path.iterdir()))}", **settings
            )
            assert broken.fingerprint() == unbroken.fingerprint()
        for agent in (unbroken, broken):
            if revealed:
                agent.end_task(teacher.context(task))
    assert broken.details() == unbroken.details()


@ALGORITHMS
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(school, algorithm):
    teacher = school()
    prints = []
    for seed in (3, 3, 4):
        agent = teacher.agent(seed, algorithm=algorithm, **SHORT)
        for task in (0, 1):
            teacher.teach(agent, task, epochs=3)
        prints.append(agent.fingerprint())
    assert prints[0] == prints[1] != prints[2]


@ALGORITHMS
def test_global_generators_are_left_alone(school, algorithm):
    teacher = school()
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    agent = teacher.agent(algorithm=algorithm, **SHORT)
    for task in (0, 1):
        teacher.teach(agent, task, epochs=2)
    teacher.act(agent, 0, np.zeros((2, 5), np.float32))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_selecting_a_checkpoint_restores_the_policy_and_keeps_the_memory(school, tmp_path):
    teacher = school()
    agent = teacher.agent(algorithm="replay")
    teacher.teach(agent, 0, epochs=4, stop=2)
    agent.save(tmp_path)
    chosen = agent.fingerprint()
    teacher.teach(agent, 0, epochs=4, start=2)
    generator = agent._shuffle.bit_generator.state
    assert agent.fingerprint() != chosen
    agent.select(tmp_path)
    assert agent.fingerprint() == chosen
    assert agent.details()["memory_pairs"] == 256
    assert agent._shuffle.bit_generator.state == generator


def test_selecting_the_untrained_policy_restores_it_as_it_was_evaluated(school, tmp_path):
    teacher = school()
    agent = teacher.agent()
    agent.save(tmp_path)
    seen = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    before = teacher.act(agent, 0, seen)
    teacher.teach(agent, 0, epochs=2)
    assert not np.array_equal(teacher.act(agent, 0, seen), before)
    agent.select(tmp_path)
    assert np.array_equal(teacher.act(agent, 0, seen), before)


def test_every_task_starts_with_a_fresh_optimiser_and_lessons_share_one(school):
    teacher = school()
    agent = teacher.agent()
    teacher.teach(agent, 0, epochs=4, stop=2)
    first = agent._learner.optimiser
    teacher.teach(agent, 0, epochs=4, start=2)
    assert agent._learner.optimiser is first
    teacher.teach(agent, 1, epochs=4, stop=2)
    assert agent._learner.optimiser is not first


def test_acting_changes_nothing_and_does_not_depend_on_the_batch(school):
    teacher = school()
    agent = teacher.agent(hidden=(300, 300))
    teacher.teach(agent, 0, epochs=3)
    seen = np.random.default_rng(0).normal(size=(37, 5)).astype(np.float32)
    before = agent.fingerprint()
    together = teacher.act(agent, 0, seen)
    alone = np.concatenate([teacher.act(agent, 0, seen[n : n + 1]) for n in range(37)])
    backwards = teacher.act(agent, 0, seen[::-1])[::-1]
    assert np.array_equal(together, alone)
    assert np.array_equal(together, backwards)
    assert agent.fingerprint() == before


def test_a_read_only_observation_is_no_trouble(school):
    teacher = school()
    seen = np.zeros((1, 5), np.float32)
    seen.setflags(write=False)
    assert teacher.act(teacher.agent(), 0, seen).shape == (1, 4)


def test_the_state_is_safetensors_and_json_only(school, tmp_path):
    teacher = school()
    agent = teacher.agent(algorithm="replay")
    teacher.teach(agent, 0, epochs=2)
    teacher.teach(agent, 1, epochs=2, stop=1)
    agent.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agent.json",
        "memory-000.safetensors",
        "memory-001.safetensors",
        "optimiser.safetensors",
        "policy.json",
        "policy.safetensors",
    ]
    for path in tmp_path.glob("*.json"):
        json.loads(path.read_text())


def test_saving_twice_gives_the_same_bytes(school, tmp_path):
    teacher = school()
    agent = teacher.agent(algorithm="replay")
    teacher.teach(agent, 0, epochs=2, stop=1)
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        agent.save(tmp_path / name)
        contents.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]


def test_a_state_of_other_settings_is_refused(school, tmp_path):
    teacher = school()
    teacher.agent(hidden=(8,)).save(tmp_path)
    with pytest.raises(Unsupported, match="other settings"):
        teacher.agent(hidden=(9,)).load(tmp_path)


def test_a_damaged_or_newer_state_is_refused_in_one_line(school, tmp_path):
    teacher = school()
    agent = teacher.agent()
    agent.save(tmp_path)
    facts = json.loads((tmp_path / "agent.json").read_text())
    (tmp_path / "agent.json").write_text(json.dumps({**facts, "version": 99}))
    with pytest.raises(Unsupported, match="version 99"):
        agent.load(tmp_path)
    agent.save(tmp_path)
    (tmp_path / "policy.safetensors").write_bytes(b"no tensors")
    with pytest.raises(Unsupported, match=r"policy\.safetensors") as caught:
        agent.load(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / "agent.json").unlink()
    with pytest.raises(Unsupported, match=r"agent\.json"):
        agent.load(tmp_path)
