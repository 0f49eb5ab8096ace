"""The policies of LIBERO: sizes, what they see, how they remember, and that they learn."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from l2bench.agent import Acting, Life, TaskContext
from l2bench.environment import Demonstrations, Spaces
from l2bench.suite import judge
from l2bench_agents.algorithms import ALGORITHMS
from l2bench_agents.bc import BcRnn, BcTransformer, BcVilt
from l2bench_agents.heads import make_head
from l2bench_agents.observations import Layout
from l2bench_agents.policies import make_policy
from l2bench_agents.settings import RnnSettings, TemporalSettings, ViltSettings

POLICIES = pytest.mark.parametrize("policy", ["rnn", "transformer", "vilt"])
AGENTS = {"rnn": BcRnn, "transformer": BcTransformer, "vilt": BcVilt}
TINY = {
    "rnn": {"width": 32, "layers": 1, "image_width": 16, "text_width": 8},
    "transformer": {"width": 16, "layers": 1, "heads": 2, "head_width": 8, "hidden": 32},
    "spatial": {"width": 16, "layers": 1, "heads": 2, "head_width": 8, "hidden": 32, "patch": 4},
    "gmm": {"hidden": 32, "layers": 1, "noise": "none"},
    "embedding": {"kind": "hashed_words", "width": 16},
    "seq_len": 4,
    "augment": False,
    "batch_size": 16,
    "learning_rate": 0.003,
}
VECTORS = {"joint_states": ("proprio", 0, 7), "gripper_states": ("proprio", 7, 9)}
#: What LIBERO's agents see: 15 numbers of the robot and two cameras.
LIBERO = Dict(
    proprio=Box(-np.inf, np.inf, (15,), np.float32),
    agentview_rgb=Box(0, 255, (128, 128, 3), np.uint8),
    eye_in_hand_rgb=Box(0, 255, (128, 128, 3), np.uint8),
)
SEEN = Dict(place=Box(-1, 1, (2,), np.float32), camera=Box(0, 255, (16, 16, 3), np.uint8))
SPACES = Spaces(SEEN, Box(-1, 1, (2,), np.float32))


def linear(inputs, outputs):
    return inputs * outputs + outputs


def resnet(width, told):
    """Half a ResNet-18, its four modulations, the positions of width / 2 features, a layer."""
    convolutions = 64 * 3 * 49 + 4 * 64 * 64 * 9 + (64 + 3 * 128) * 128 * 9 + 64 * 128
    norms = 2 * (64 + 4 * 64 + 5 * 128)
    return (
        convolutions + norms + 2 * (linear(told, 128) + linear(told, 256))
        + linear(128, width // 2) + linear(width, width)
    )  # fmt: skip


def blocks(width, layers, inside, hidden):
    each = (
        2 * 2 * width + 3 * inside * width + linear(inside, width)
        + linear(width, hidden) + linear(hidden, width)
    )  # fmt: skip
    return layers * each


def mixture(width):
    return linear(width, 1024) + 2 * linear(1024, 1024) + 2 * linear(1024, 35) + linear(1024, 5)


def expected(policy):
    """Count the parameters of LIBERO's configurations by hand: BERT's 768 numbers, 7 actions."""
    told = 768
    temporal = blocks(64, 4, 6 * 64, 256)
    vectors = linear(7, 64) + linear(2, 64)
    if policy == "rnn":
        inputs = 2 * 64 + 9 + 32
        lstm = 4 * 1024 * (inputs + 1024 + 2) + 4 * 1024 * (2 * 1024 + 2)
        return 2 * resnet(64, told) + linear(told, 32) + lstm + mixture(1024)
    if policy == "transformer":
        return 2 * resnet(64, told) + linear(told, 64) + vectors + temporal + mixture(64)
    patches = 64 * 3 * 49 + 2 * 64 + linear(64 * 64, 128) + 2 * 128
    tokens = 128 + 2 * 64 * 128 + 3 * 128
    return (
        2 * patches + linear(told, 128) + tokens + blocks(128, 7, 8 * 120, 256)
        + linear(128, 64) + vectors + linear(told, 64) + temporal + mixture(64)
    )  # fmt: skip


@pytest.mark.parametrize(
    "settings, total",
    [(RnnSettings, 19_105_707), (TemporalSettings, 5_383_307), (ViltSettings, 7_917_963)],
)
def test_the_published_configurations_have_the_published_sizes(settings, total):
    chosen = settings(vectors=VECTORS)
    layout = Layout.of(LIBERO, "a task", VECTORS)
    head = make_head(Box(-1, 1, (7,), np.float32), chosen, "a task")
    policy = make_policy(layout, 768, head, chosen, np.random.default_rng(0))
    assert total == expected(chosen.policy)
    assert sum(values.numel() for values in policy.parameters()) == total
    rows = {
        "vector": torch.zeros(1, 2, 9),
        "task": torch.zeros(1, 768),
        "image.agentview_rgb": torch.zeros(1, 2, 128, 128, 3, dtype=torch.uint8),
        "image.eye_in_hand_rgb": torch.zeros(1, 2, 128, 128, 3, dtype=torch.uint8),
    }
    with torch.inference_mode():
        assert policy(rows).shape == (1, 2, 1, 5 * (2 * 7 + 1))


def context(task=0, language="put the thing there"):
    return TaskContext(SPACES, task, f"task_{task}", language)


def agent_of(policy, seed=0, tasks=(0,), **settings):
    kind = AGENTS[policy]
    chosen = judge(kind.Settings, {**TINY, **settings}, "settings")
    return kind(chosen, Life(tuple(context(task) for task in tasks), seed, "cpu", 1))


def dots(number=24, length=8, seed=0):
    """Trajectories of a bright dot; the action says where it is, in [-1, 1]."""
    rng = np.random.default_rng(seed)
    total = number * length
    places = rng.integers(2, 14, (total, 2))
    images = rng.integers(0, 20, (total, 16, 16, 3)).astype(np.uint8)
    for each, (row, column) in zip(images, places, strict=True):
        each[row - 2 : row + 2, column - 2 : column + 2] = 250
    vectors = rng.uniform(-1, 1, (total, 2)).astype(np.float32)
    actions = (places / 8 - 1).astype(np.float32)
    return Demonstrations(
        {"camera": images, "place": vectors}, actions, np.arange(0, total + 1, length), {}
    )


def observed(data, at):
    return {key: values[at] for key, values in data.observations.items()}


def acting(slots, first, task=0):
    rngs = [np.random.default_rng(int(slot)) for slot in slots]
    return Acting(context(task), np.asarray(slots), np.asarray(first), rngs)


@POLICIES
def test_the_loss_falls_on_a_tiny_set_of_images(school, policy):
    agent = agent_of(policy, seq_len=2)
    epochs = {"rnn": 6, "transformer": 6, "vilt": 30}[policy]
    lesson = school(SPACES).teach(agent, 0, dots(12), epochs=epochs, told=context())
    losses = [value for _, _, value in lesson.series]
    assert losses[-1] < losses[0] - 0.7  # knowing half as well where the dot is gains 1.4


@POLICIES
@pytest.mark.parametrize("noise", ["full", "low", "none"])
def test_acting_does_not_depend_on_who_else_acts_and_changes_nothing(policy, noise):
    agent = agent_of(policy, gmm={**TINY["gmm"], "noise": noise})
    data = dots(2, 8)
    before = agent.fingerprint()

    def episode(slots, frames):
        """Act in interleaved episodes; row n of frame t is position frames[n] + t."""
        rngs = [np.random.default_rng(int(start)) for start in frames]
        out = []
        for t in range(7):
            at = np.asarray(frames) + t
            told = Acting(context(), np.asarray(slots), np.full(len(slots), t == 0), rngs)
            out.append(agent.act(observed(data, at), told))
        return np.stack(out, axis=1)

    together = episode([0, 1], [0, 8])
    backwards = episode([5, 3], [8, 0])
    assert np.array_equal(together, backwards[::-1])
    assert np.array_equal(together[0], episode([7], [0])[0])
    assert agent.fingerprint() == before


@POLICIES
def test_an_episode_is_acted_in_as_its_window_is_learned(policy):
    agent = agent_of(policy)
    data = dots(1, 8)
    acted = [agent.act(observed(data, [t]), acting([0], [t == 0]))[0] for t in range(4)]
    rows = agent._layout.rows(
        {key: values[None, :4] for key, values in data.observations.items()}, (1, 4)
    )
    rows["task"] = agent._embedding.rows(context(), 1)
    with torch.inference_mode():
        outputs = agent._learner.policy(rows)[0]
    whole = agent._learner.head.actions(outputs, [np.random.default_rng(0)] * 4)
    assert np.stack(acted) == pytest.approx(whole[:, 0], abs=1e-5)


@POLICIES
def test_what_an_episode_saw_matters_until_it_is_too_old_or_over(policy):
    agent = agent_of(policy)
    data = dots(1, 16)

    def last(order, first_at=0):
        for t, at in enumerate(order):
            action = agent.act(observed(data, [at]), acting([0], [t == first_at]))
        return action

    assert not np.array_equal(last([0, 1, 2]), last([5, 1, 2]))
    assert np.array_equal(last([0, 1, 2], first_at=2), last([5, 1, 2], first_at=2))
    # windows have four frames: a fifth drops the first one, or starts the LSTM anew
    if policy == "rnn":
        assert np.array_equal(last([0, 1, 2, 3, 4]), last([5, 6, 7, 8, 4]))
    else:
        assert np.array_equal(last([0, 1, 2, 3, 4]), last([5, 1, 2, 3, 4]))


@POLICIES
@pytest.mark.parametrize("algorithm", ["sequential", "replay", "packnet"])
def test_resuming_with_images_dropout_and_augmentation_is_exact(
    school, tmp_path, policy, algorithm
):
    teacher = school(SPACES)
    settings = {"algorithm": algorithm, "augment": True, "packnet": {"epochs": 1}, "prefetch": 2}
    agent = agent_of(policy, tasks=(0, 1), **settings)
    data = dots(3, 8)
    teacher.teach(agent, 0, data, epochs=1, told=context(0))
    teacher.teach(agent, 1, data, epochs=2, stop=1, told=context(1))
    agent.save(tmp_path)
    other = agent_of(policy, seed=5, tasks=(0, 1), **{**settings, "prefetch": 0})
    other.load(tmp_path)
    for each in (agent, other):
        teacher.teach(each, 1, data, epochs=2, start=1, told=context(1))
    assert agent.fingerprint() == other.fingerprint()


@POLICIES
def test_acting_in_a_batch_is_acting_alone_up_to_rounding(policy):
    """The way a GPU is used: rows whose episodes are of different ages, in one call."""
    agent = agent_of(policy)
    network, data = agent._learner.policy, dots(2, 8)

    def frames(*at):
        rows = agent._layout.rows(observed(data, list(at)), (len(at),))
        return {**rows, "task": agent._embedding.rows(context(), len(at))}

    alone: list[list[torch.Tensor]] = [[], []]
    with torch.inference_mode():
        for row, start in enumerate((0, 8)):
            memory = None
            for t in range(6):
                outputs, (memory,) = network.step(frames(start + t), [memory])
                alone[row].append(outputs[0])
        memories = [None, None]
        _, memories[:1] = network.step(frames(0), memories[:1])
        for t in range(5):  # the first episode is a frame ahead
            outputs, memories = network.step(frames(1 + t, 8 + t), memories)
            assert torch.allclose(outputs[0], alone[0][1 + t], atol=1e-5)
            assert torch.allclose(outputs[1], alone[1][t], atol=1e-5)


def test_instructions_reach_every_policy():
    for policy in AGENTS:
        agent = agent_of(policy)
        data = dots(1, 8)
        told = Acting(
            context(language="do something else"), np.array([0]), np.array([True]),
            [np.random.default_rng(0)],
        )  # fmt: skip
        one = agent.act(observed(data, [0]), acting([0], [True]))
        assert not np.array_equal(one, agent.act(observed(data, [0]), told)), policy


def test_without_task_and_vectors_policies_still_work(school):
    only = Spaces(Box(0, 255, (16, 16, 1), np.uint8), SPACES.action)
    for policy, kind in AGENTS.items():
        chosen = judge(kind.Settings, {**TINY, "embedding": "none"}, "settings")
        agent = kind(chosen, Life((TaskContext(only),), 0, "cpu", 1))
        images = np.zeros((8, 16, 16, 1), np.uint8)
        data = Demonstrations({"any": images}, np.zeros((8, 2)), np.array([0, 8]), {})
        school(only).teach(agent, 0, data, epochs=1, told=TaskContext(only))
        told = Acting(
            TaskContext(only), np.arange(8), np.ones(8, bool), [np.random.default_rng(0)] * 8
        )
        assert agent.act(images, told).shape == (8, 2), policy


@POLICIES
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_what_was_evaluated_before_learning_can_still_be_learned_with(school, policy, algorithm):
    """A suite measures at checkpoint 0, before the first lesson of every task, and in between."""
    agent = agent_of(policy, tasks=(0, 1), algorithm=algorithm, seq_len=2)
    data = dots(2)
    for task in (0, 1):
        told = context(task, f"put thing {task} there")
        for start in (0, 1):
            rngs = [np.random.default_rng(0)]
            agent.act(observed(data, [0]), Acting(told, np.zeros(1, int), np.ones(1, bool), rngs))
            school(SPACES).teach(
                agent, task, data, epochs=2, start=start, stop=start + 1, told=told
            )
