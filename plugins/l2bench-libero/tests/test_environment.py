"""LIBERO as L2bench sees it: names, settings and refusals, without a simulator."""

import re

import pytest

from l2bench.environment import task_info
from l2bench.errors import Unsupported, UsageError
from l2bench.suite import Learning, Task
from l2bench_libero import installation, plugin, rendering
from l2bench_libero.environment import Goal, Long, Object

SOUP = "pick_up_the_alphabet_soup_and_place_it_in_the_basket"
LEARNING = Learning(source="demonstrations", unit="epochs", amount=1)


def task(name=SOUP, environment="libero/libero_object", learning=None, **settings):
    return Task(id="soup", environment=environment, task=name, settings=settings, learning=learning)


def test_every_registered_name_is_there():
    import importlib

    for name, target in plugin.l2bench_environments().items():
        module, attribute = target.split(":")
        environment = getattr(importlib.import_module(module), attribute)()
        assert environment.suite == ("libero_10" if name == "libero_long" else name)
        assert environment.tasks()


def test_task_info_says_what_is_known_beforehand():
    info = task_info(Object(), task())
    assert info.language == "pick the alphabet soup and place it in the basket"
    assert info.initial_states == 50
    assert info.horizon == 600
    assert info.sources == {"demonstrations", "interaction"}


def test_spaces_follow_the_observation():
    spaces = Object().spaces(task(observation="pixels", image_size=16))
    assert spaces.observation["agentview_rgb"].shape == (16, 16, 3)
    assert spaces.action.shape == (7,)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"obsevation": "state"}, "no setting 'obsevation' (did you mean 'observation'?)"),
        ({"observation": "image"}, "no LIBERO observation 'image'"),
        ({"demonstrations": "script"}, "'script' is none of scripted, official"),
        ({"expert": "phases"}, "'phases' is none of memoryless, phase"),
        ({"pairing": "before"}, "'before' is none of shifted, as_stored"),
        ({"count": 0}, "count must be a whole number from 1 up, not 0"),
        ({"settle_steps": -1}, "settle_steps must be a whole number from 0 up, not -1"),
        ({"image_size": 12.5}, "image_size must be a whole number from 1 up, not 12.5"),
        ({"noise": -0.1}, "noise must be a number from 0 up, not -0.1"),
        ({"demonstration_seed": True}, "demonstration_seed must be a whole number"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        Object().check(task(**settings))


def test_settle_steps_are_those_of_the_suite_unless_set():
    name = next(iter(Long().tasks()))
    assert Long().make(task(name, "libero/libero_10")).settle_steps == 10
    assert Object().make(task()).settle_steps == 5
    assert Object().make(task(settle_steps=0)).settle_steps == 0


def test_a_task_without_an_expert_is_refused_before_the_run():
    name = next(iter(Goal().tasks()))
    with pytest.raises(UsageError, match="no scripted expert for libero_goal/"):
        Goal().check(task(name, "libero/libero_goal", LEARNING))
    Goal().check(task(name, "libero/libero_goal"))


def test_official_demonstrations_need_images_and_the_file(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="hold no compact state; set observation: pixels"):
        Object().check(task(learning=LEARNING, demonstrations="official"))
    wanted = task(demonstrations="official", observation="pixels")
    with pytest.raises(Unsupported, match=r"no official demonstrations at .*_demo\.hdf5; download"):
        Object().demonstrations(wanted, tmp_path)


def test_official_demonstrations_are_read_from_the_data_folder(tmp_path, write):
    folder = tmp_path / "libero" / "libero_object"
    folder.mkdir(parents=True)
    write(folder / f"{SOUP}_demo.hdf5")
    wanted = task(demonstrations="official", observation="pixels", count=2)
    data = Object().demonstrations(wanted, tmp_path)
    assert len(data) == 7
    assert data.origin["pairing"] == "shifted"


def test_the_renderer_is_recorded_where_images_are_seen(monkeypatch):
    monkeypatch.setattr(rendering, "backend", lambda: "egl")
    environment = Object()
    environment.check(task())
    assert "renderer" not in environment.versions()
    environment.check(task(observation="pixels"))
    assert environment.versions()["renderer"] == "egl"


def test_no_renderer_is_looked_for_with_state_observations(monkeypatch):
    def refuse():
        raise Unsupported("none")

    monkeypatch.setattr(rendering, "backend", refuse)
    Object().check(task(observation="state"))
    with pytest.raises(Unsupported, match="none"):
        Object().check(task(observation="both"))


def test_diagnose_passes_on_what_is_wrong_with_the_installation(monkeypatch):
    def refuse():
        raise Unsupported("LIBERO is not installed")

    monkeypatch.setattr(installation, "root", refuse)
    with pytest.raises(Unsupported, match="LIBERO is not installed"):
        Object().diagnose()
