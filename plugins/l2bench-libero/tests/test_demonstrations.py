"""Demonstrations made by the expert: recorded right, kept, remade when damaged."""

from dataclasses import replace

import h5py
import numpy as np
import pytest

from l2bench.errors import RunFailed
from l2bench.suite import Learning, Task
from l2bench.testing import check_environment
from l2bench_libero import demonstrations, hdf5
from l2bench_libero.demonstrations import Recipe, collect
from l2bench_libero.environment import Object
from l2bench_libero.experts import make_expert
from l2bench_libero.tasks import find

pytestmark = pytest.mark.sim

SOUP = find("libero_object", 0)
RECIPE = Recipe("libero_object", SOUP.name, count=2, seed=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the file with two demonstrations."""
    return collect(RECIPE, tmp_path_factory.mktemp("demonstrations"))


def test_the_file_has_the_official_layout(made):
    with h5py.File(made) as file:
        data = file["data"]
        assert data.attrs["env_name"] == "LIBERO_Floor_Manipulation"
        assert '"language_instruction": "pick the alphabet soup' in data.attrs["problem_info"]
        assert data.attrs["observations_recorded"] == "before_action"
        assert list(data) == ["demo_0", "demo_1"]
        for demo in data.values():
            length = demo.attrs["num_samples"]
            assert {len(demo[key]) for key in demo if key != "obs"} == {length}
            assert set(np.unique(demo["actions"][:, 6])) == {-1.0, 1.0}
            assert np.flatnonzero(demo["dones"]).tolist() == [length - 1]
            assert np.array_equal(demo["rewards"], demo["dones"])
            assert np.array_equal(demo["states"][0], demo.attrs["init_state"])
            ee = demo["obs/ee_states"][()]
            assert np.array_equal(ee, np.hstack([demo["obs/ee_pos"], demo["obs/ee_ori"]]))
            assert np.array_equal(demo["robot_states"][:, 2:5], demo["obs/ee_pos"])


def test_noise_is_executed_but_not_recorded(made):
    with h5py.File(made) as file:
        demo = file["data/demo_0"]
        difference = demo["executed_actions"][()] - demo["actions"][()]
    assert np.abs(difference[:, :3]).max() > 0.05
    assert not difference[:, 3:].any()


def test_the_recorded_action_is_the_experts_for_the_recorded_state(made):
    """The expert moves by at most 5 cm: far from the object it heads straight for it."""
    data = hdf5.read(made, "state")
    state, action = data.observations["state"][0], data.actions[0]
    assert np.allclose(action[:2], np.clip(20 * state[7:9], -1, 1), atol=1e-5)


def test_starts_are_not_the_evaluation_states(made):
    stored = SOUP.initial_states()
    with h5py.File(made) as file:
        for demo in file["data"].values():
            distance = np.abs(stored[:, 1:] - demo["states"][0][1:]).max(axis=1)
            assert distance.min() > 0.005


def test_the_same_recipe_gives_the_same_file(made, tmp_path):
    again = collect(RECIPE, tmp_path)
    assert again.name == made.name
    assert hdf5.digest(again) == hdf5.digest(made)


def test_a_short_recipe_gives_the_beginnings_of_the_same_episodes(made, tmp_path):
    short = collect(replace(RECIPE, longest=5), tmp_path)
    assert short.name != made.name
    with h5py.File(made) as whole, h5py.File(short) as cut:
        assert list(cut["data"]) == list(whole["data"])
        for name, demo in cut["data"].items():
            assert demo.attrs["num_samples"] == 5
            assert not demo["dones"][()].any()
            for key in ("states", "actions", "executed_actions", "obs/state"):
                assert np.array_equal(demo[key][()], whole[f"data/{name}/{key}"][:5])
    beyond = collect(replace(RECIPE, longest=1000), tmp_path)
    with h5py.File(made) as whole, h5py.File(beyond) as cut:
        for name, demo in cut["data"].items():
            assert np.array_equal(demo["dones"][()], whole[f"data/{name}/dones"][()])


def test_what_is_there_is_not_made_again(made, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("built a simulator")

    monkeypatch.setattr(demonstrations, "LiberoEnv", refuse)
    folder = made.parents[1]
    assert collect(RECIPE, folder) == made
    assert Recipe("libero_object", SOUP.name, 2, seed=5).file(folder) != made
    assert Recipe("libero_object", SOUP.name, 2, seed=4, pixels=True).file(folder) != made
    intact = made.read_bytes()
    with h5py.File(made, "r+") as file:  # another recipe's
        origin = file["data"].attrs["l2bench_origin"]
        file["data"].attrs["l2bench_origin"] = origin.replace('"seed": 4', '"seed": 5')
    with pytest.raises(AssertionError, match="built a simulator"):
        collect(RECIPE, folder)
    made.write_bytes(intact[:-1024])
    with pytest.raises(AssertionError, match="built a simulator"):
        collect(RECIPE, folder)


def test_an_expert_that_keeps_failing_is_an_error_and_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstrations, "HORIZON", 2)
    with pytest.raises(RunFailed, match=r"solved libero_object/\S+ 0 times in 16 attempts"):
        collect(RECIPE, tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_images_are_recorded_beside_the_state(simulators, tmp_path):
    env = simulators("libero_object", 0, "both")
    env.horizon = 2
    try:
        seed = np.random.SeedSequence(0)
        episode = demonstrations.demonstrate(env, make_expert(env), seed)
    finally:
        env.horizon = None
    with hdf5.Writer(tmp_path / "x.hdf5", {}, {}) as writer:
        writer.add(episode.arrays, episode.observations, episode.init_state)
    data = hdf5.read(tmp_path / "x.hdf5", "both")
    assert data.observations["agentview_rgb"].shape == (2, 64, 64, 3)
    assert data.observations["eye_in_hand_rgb"].std() > 10
    assert data.observations["proprio"].shape == (2, 15)


def test_steps_that_are_not_recorded_are_not_rendered(simulators, monkeypatch):
    env = simulators("libero_object", 0, "both")
    expert, seed = make_expert(env), np.random.SeedSequence(0)
    rendered = []
    camera = env._camera

    def counting(name):
        rendered.append(name)
        return camera(name)

    monkeypatch.setattr(env, "_camera", counting)
    monkeypatch.setattr(env, "horizon", 4)
    cut = demonstrations.demonstrate(env, expert, seed, longest=2)
    assert (env.steps, len(rendered)) == (4, 4)  # two cameras, before each of the two steps
    monkeypatch.setattr(env, "horizon", 2)
    whole = demonstrations.demonstrate(env, expert, seed)
    for key, values in whole.observations.items():
        assert np.array_equal(cut.observations[key], values)


def test_the_environment_keeps_the_contract():
    check_environment(Object(), Task(id="soup", environment="libero/x", task=SOUP.name))


def test_through_the_environment(tmp_path):
    task = Task(
        id="soup",
        environment="libero/libero_object",
        task=SOUP.name,
        learning=Learning(source="demonstrations", unit="epochs", amount=1),
        settings={"count": 1, "demonstration_seed": 4},
    )
    environment, seen = Object(), []
    environment.check(task)
    data = environment.demonstrations(task, tmp_path, lambda *what: seen.append(what))
    assert seen == [(1, 1, SOUP.id)]
    assert data.observations["state"].shape == (len(data), 17)
    assert data.origin["expert"] == "memoryless"
    assert data.origin["mujoco"] == "3.3.0"
    spaces = environment.spaces(task)
    assert spaces.observation["state"].dtype == data.observations["state"].dtype
    assert spaces.action.contains(data.actions[0])
