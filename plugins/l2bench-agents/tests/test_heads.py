"""Action heads: mixtures, actions planned ahead, and frames that are filled in."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from torch import distributions

from l2bench.environment import Demonstrations, Spaces
from l2bench.errors import UsageError
from l2bench_agents.heads import make_head
from l2bench_agents.settings import CloningSettings, MixtureSettings

ARM = Box(-1, 1, (3,), np.float32)


def mixture(**settings):
    chosen = CloningSettings(head="gmm", gmm=MixtureSettings(modes=2, hidden=8, **settings))
    return make_head(ARM, chosen, "a task")


def outputs_of(means, deviations, weights):
    parts = [np.ravel(means), np.ravel(deviations), np.ravel(weights)]
    return torch.tensor(np.concatenate(parts), dtype=torch.float32).view(1, 1, -1)


def test_the_loss_of_a_mixture_is_its_negative_log_likelihood():
    head = mixture()
    torch.manual_seed(0)
    outputs = head.network(4, 1)(torch.randn(5, 2, 4)).unflatten(-1, (1, head.size))
    targets = torch.rand(5, 2, 1, 3) * 2 - 1
    means, deviations, weights = (
        outputs[..., a:b].unflatten(-1, shape)
        for a, b, shape in ((0, 6, (2, 3)), (6, 12, (2, 3)), (12, 14, (2,)))
    )
    whole = distributions.MixtureSameFamily(
        distributions.Categorical(logits=weights),
        distributions.Independent(distributions.Normal(means, deviations), 1),
    )
    expected = -whole.log_prob(targets).mean()
    assert head.loss(outputs, targets, None).item() == pytest.approx(expected.item(), rel=1e-5)


def test_means_stay_within_bounds_and_deviations_above_the_least():
    head = mixture(min_std=0.25)
    outputs = head.network(4, 1)(100 * torch.randn(50, 4))
    assert outputs[:, :6].abs().max() <= 1
    assert outputs[:, 6:12].min() >= 0.25


@pytest.mark.parametrize("noise, spread", [("full", 0.2), ("low", 1e-4), ("none", 0.0)])
def test_actions_are_drawn_from_the_mixture_with_the_row_s_own_generator(noise, spread):
    head = mixture(noise=noise)
    one = outputs_of([[-0.5] * 3, [0.5] * 3], np.full((2, 3), 0.2), [np.log(1), np.log(3)])
    many = one.expand(4000, 1, -1)
    rngs = [np.random.default_rng([1, n]) for n in range(4000)]
    actions = head.actions(many, rngs)[:, 0]
    upper = actions[:, 0] > 0
    if noise == "none":
        assert upper.all()
    else:
        near = actions[:, 0] if noise == "low" else actions[np.abs(actions).min(1) > 0.2][:, 0]
        assert (near > 0).mean() == pytest.approx(0.75, abs=0.03)
    inside = actions[upper & (np.abs(actions - 0.5).max(1) < 1)]
    assert (inside - 0.5).std() == pytest.approx(spread, rel=0.25)
    again = head.actions(many[:1], [np.random.default_rng([1, 0])])[:, 0]
    assert np.array_equal(again, actions[:1])


def test_a_mixture_of_labels_is_refused():
    with pytest.raises(UsageError, match=r"gmm' is for continuous actions.*set head to auto"):
        make_head(Discrete(3), CloningSettings(head="gmm"), "task 'a'")


@pytest.mark.parametrize("head", ["auto", "gmm"])
def test_actions_are_planned_ahead_and_a_chunk_of_them_is_returned(school, head):
    teacher = school(Spaces(Box(-1, 1, (1,), np.float32), Box(-1, 1, (2,), np.float32)), tasks=1)
    agent = teacher.agent(
        predict=3, chunk=2, hidden=(64,), batch_size=8, head=head, loss="mse", gripper="none",
        gmm={"modes": 1, "hidden": 64, "noise": "none"}, schedule="constant",
    )  # fmt: skip
    assert agent.chunk == 2
    at = np.linspace(-1, 1, 32)
    actions = np.stack([at, -at / 2], axis=1)
    data = Demonstrations({"any": at[:, None]}, actions, np.array([0, 32]), {})
    teacher.teach(agent, 0, data, epochs=150)
    planned = teacher.act(agent, 0, at[:28, None].astype(np.float32))
    assert planned.shape == (28, 2, 2)
    for ahead in range(2):
        assert planned[:, ahead] == pytest.approx(actions[ahead : 28 + ahead], abs=0.15)
    assert np.abs(planned[:, 1] - planned[:, 0]).mean() > 0.02


def test_labels_can_be_planned_ahead_too(school):
    teacher = school(Spaces(Box(0, 1, (4,), np.float32), Discrete(4)), tasks=1)
    agent = teacher.agent(predict=2, chunk=2)
    answers = np.arange(32) % 4
    data = Demonstrations({"a": np.eye(4)[answers]}, answers[:, None], np.array([0, 32]), {})
    teacher.teach(agent, 0, data)
    shown = np.eye(4, dtype=np.float32)
    assert teacher.act(agent, 0, shown).tolist() == [[0, 1], [1, 2], [2, 3], [3, 0]]


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"chunk": 2}, "needs predict: 2 or more"),
        ({"chunk": 2, "predict": 2, "policy": "rnn"}, "set seq_len to 1"),
        ({"vectors": {"a": ("s", 3, 3)}}, "vectors.a is empty"),
        ({"vectors": {"a": ("nose", 0, 3)}}, "observes no vector 'nose'"),
        ({"vectors": {"a": ("observation", 0, 9)}}, "vectors.a ends at 9, but 'observation' has 5"),
        ({"amp": True}, "amp is for GPUs, and the device is cpu"),
        ({"compile": True}, "compile is for GPUs, and the device is cpu"),
        ({"policy": "vilt"}, "these observations have none"),
    ],
)
def test_what_cannot_work_is_refused(school, settings, words):
    with pytest.raises(UsageError) as caught:
        school().agent(**settings)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_images_smaller_than_a_patch_are_refused(school):
    tiny = Spaces(Box(0, 255, (8, 8, 3), np.uint8), ARM)
    with pytest.raises(UsageError, match=r"image 'observation' of 8 x 8 holds none.*lower"):
        school(tiny).agent(policy="vilt")


@pytest.mark.parametrize("head", ["auto", "gmm"])
def test_filled_in_frames_count_only_where_they_are_asked_for(school, head):
    """Where trajectories have one frame, windows hold it three times: the loss is the same."""
    teacher = school(Spaces(Box(-1, 1, (2,), np.float32), ARM), tasks=1)
    seen = np.random.default_rng(0).uniform(-1, 1, (3, 2))
    actions = np.random.default_rng(1).uniform(-1, 1, (3, 3))
    losses = {}
    for starts in ([0, 1, 2, 3], [0, 3]):
        for pad_loss in (True, False):
            agent = teacher.agent(seq_len=3, pad_loss=pad_loss, batch_size=3, head=head)
            data = Demonstrations({"a": seen}, actions, np.array(starts), {})
            lesson = teacher.teach(agent, 0, data, epochs=1)
            losses[len(starts), pad_loss] = lesson.series[0][2]
    assert losses[4, True] == pytest.approx(losses[4, False], rel=1e-5)
    assert losses[2, True] != pytest.approx(losses[2, False], rel=1e-3)


def test_parts_of_vectors_are_chosen_by_name(school):
    spaces = Spaces(Dict(proprio=Box(-1, 1, (5,), np.float32)), ARM)
    teacher = school(spaces, tasks=1)
    agent = teacher.agent(vectors={"grip": ("proprio", 3, 5), "arm": ("proprio", 0, 1)})
    assert agent.details()["inputs"] == {"grip": 2, "arm": 1, "task": 1}
    seen = np.arange(10, dtype=np.float32).reshape(2, 5)
    rows = agent._layout.rows({"proprio": seen}, (2,))
    assert rows["vector"][:, 0].tolist() == [[3, 4, 0], [8, 9, 5]]
    rng = np.random.default_rng(0)
    values, actions = rng.uniform(-1, 1, (8, 5)), rng.uniform(-1, 1, (8, 3))
    teacher.teach(
        agent, 0, Demonstrations({"proprio": values}, actions, np.array([0, 8]), {}), epochs=1
    )
    mean = agent._learner.policy.standardise.mean.numpy()
    assert mean == pytest.approx(values.mean(axis=0)[[3, 4, 0]], abs=1e-6)
