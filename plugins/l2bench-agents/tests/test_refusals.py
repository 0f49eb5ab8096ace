"""What is refused before anything is learned, always in one line that says what to do."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text

from l2bench.agent import Life, TaskContext
from l2bench.environment import Spaces
from l2bench.errors import L2benchError, Unsupported, UsageError
from l2bench_agents.bc import BehaviourCloning
from l2bench_agents.device import choose_device
from l2bench_agents.settings import CloningSettings

VECTOR = Box(-1, 1, (3,), np.float32)


def one_line(make, *asked) -> str:
    with pytest.raises(L2benchError) as caught:
        make(*asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def agent_for(*spaces: Spaces, **settings) -> BehaviourCloning:
    tasks = tuple(TaskContext(each, n, f"task_{n}") for n, each in enumerate(spaces))
    return BehaviourCloning(CloningSettings(**settings), Life(tasks, 0, "cpu"))


@pytest.fixture
def gpus(monkeypatch):
    """Return a function that sets how many GPUs torch finds."""

    def pretend(number: int) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)

    return pretend


def test_auto_takes_the_first_gpu_or_the_cpu(gpus):
    """CFG-03: only ``auto`` may fall back."""
    gpus(0)
    assert choose_device("auto") == torch.device("cpu")
    gpus(2)
    assert choose_device("auto") == torch.device("cuda:0")
    assert choose_device("cuda") == torch.device("cuda:0")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("asked", ["cuda", "cuda:0", "cuda:3"])
def test_a_gpu_that_is_not_there_is_an_error_not_the_cpu(gpus, asked):
    """CFG-03: a GPU that was asked for is never replaced."""
    gpus(0)
    with pytest.raises(Unsupported, match=r"no CUDA GPU here; choose one of auto, cpu$"):
        choose_device(asked)


def test_a_gpu_number_too_high_is_an_error_with_the_choices(gpus):
    gpus(2)
    with pytest.raises(Unsupported, match=r"2 CUDA GPUs here; .*auto, cpu, cuda, cuda:0, cuda:1$"):
        choose_device("cuda:2")


@pytest.mark.parametrize("asked", ["gpu", "cud", "cuda:", "cuda:-1", "CPU", "", "mps"])
def test_an_unknown_device_is_an_error_with_the_choices(gpus, asked):
    """CFG-03: other names are refused with the choices."""
    gpus(0)
    with pytest.raises(UsageError, match=f"unknown device '{asked}'.*choose one of auto, cpu"):
        choose_device(asked)


def test_the_agent_refuses_its_device_at_birth(school, gpus):
    gpus(0)
    assert "no CUDA GPU" in one_line(lambda: school().agent(device="cuda"))


@pytest.mark.parametrize("observation", [Discrete(3), Box(0, 1, (3, 3)), MultiBinary(3), Text(5)])
def test_observations_that_are_no_vectors_or_images_are_refused(observation):
    text = one_line(agent_for, Spaces(observation, VECTOR))
    assert "vectors (N,) or uint8 images" in text
    assert "observations of task 'task_0'" in text


def test_a_part_of_an_observation_is_named():
    observation = Dict(state=VECTOR, depth=Box(0, 1, (8, 8, 1), np.float32))
    assert "observation 'depth' of task 'task_0'" in one_line(
        agent_for, Spaces(observation, VECTOR)
    )
    assert "are empty" in one_line(agent_for, Spaces(Dict(), VECTOR))


@pytest.mark.parametrize("action", [MultiBinary(3), Box(0, 1, (2, 2)), Dict(a=VECTOR)])
def test_actions_that_are_no_vector_or_number_are_refused(action):
    text = one_line(agent_for, Spaces(VECTOR, action))
    assert "discrete or continuous actions" in text
    assert "task 'task_0'" in text


def test_a_gripper_needs_an_arm_and_bounds():
    for action in (Box(-1, 1, (1,)), Box(-np.inf, np.inf, (3,))):
        assert "set gripper to none" in one_line(
            lambda action=action: agent_for(Spaces(VECTOR, action), gripper="last")
        )


def test_tasks_of_different_spaces_are_refused_and_both_named():
    ours = Spaces(VECTOR, Discrete(2))
    text = one_line(agent_for, ours, Spaces(VECTOR, Discrete(3)))
    assert "same actions in all tasks: task 'task_0' has Discrete(2), task 'task_1'" in text
    longer = Box(np.arange(40) - 100.0, np.arange(40) + 1.0, dtype=np.float64)
    text = one_line(agent_for, ours, Spaces(longer, Discrete(2)))
    assert "same observations in all tasks" in text


def test_bounds_of_observations_may_differ():
    agent_for(Spaces(VECTOR, VECTOR), Spaces(Box(-2, 2, (3,), np.float32), VECTOR))


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"algoritm": "replay"}, "did you mean 'algorithm'"),
        ({"algorithm": "lwf"}, "'algorithm'"),
        ({"algorithm": "replay", "batch_size": 1}, "batch_size of 2 or more"),
        ({"memory_share": 1.0}, "'memory_share'"),
        ({"memory_part": 0}, "'memory_part'"),
        ({"hidden": [0]}, "'hidden.0'"),
        ({"learning_rate": 0}, "'learning_rate'"),
    ],
)
def test_wrong_settings_are_refused_with_the_nearest_right_one(school, settings, words):
    assert words in one_line(lambda: school().agent(**settings))


def test_threads_are_one_for_vectors_unless_told(school):
    assert school().agent().details()["threads"] == 1
    assert school().agent(threads=2).details()["threads"] == 2
