"""LIBERO as L2bench sees it: names, settings and refusals, without a simulator."""

import re

import numpy as np
import pytest

from l2bench.environment import task_info
from l2bench.errors import Unsupported, UsageError
from l2bench.suite import Learning, Task
from l2bench_libero import installation, plugin, rendering
from l2bench_libero.environment import Goal, Long, Object, Spatial

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
        ({"longest": 0}, "longest must be a whole number from 1 up, not 0"),
        ({"noise": -0.1}, "noise must be a number from 0 up, not -0.1"),
        ({"demonstration_seed": True}, "demonstration_seed must be a whole number"),
        ({"protocol": "openvl"}, "'openvl' is none of libero, openvla, lerobot (did you mean"),
        ({"orientation": "rot90"}, "'rot90' is none of none, flipud, fliplr, rot180"),
        ({"proprio": "hands"}, "'hands' is none of full, joints, hand"),
        ({"settle_action": [0, 1]}, "settle_action must be 7 numbers in [-1, 1], not [0, 1]"),
        ({"canaries": "no"}, "'no' is none of check, off"),
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
    words = (
        rf"no official demonstrations at .*_demo\.hdf5; run: l2bench libero fetch \w+ -o {tmp_path}"
    )
    with pytest.raises(Unsupported, match=words):
        Object().demonstrations(wanted, tmp_path)


def test_official_demonstrations_are_read_from_the_data_folder(tmp_path, write):
    folder = tmp_path / "libero" / "libero_object"
    folder.mkdir(parents=True)
    write(folder / f"{SOUP}_demo.hdf5")
    wanted = task(demonstrations="official", observation="pixels", count=2, image_size=4)
    data = Object().demonstrations(wanted, tmp_path)
    assert len(data) == 7
    assert data.origin["pairing"] == "shifted"
    assert isinstance(data.observations["agentview_rgb"], np.memmap)
    assert data.origin["initial_states"]["evaluation_states"] == 50
    with pytest.raises(UsageError, match="expected images of 128, found 4x4; set image_size"):
        Object().demonstrations(
            wanted.model_copy(
                update={
                    "settings": {"demonstrations": "official", "observation": "pixels", "count": 2}
                }
            ),
            tmp_path,
        )


def test_a_variant_has_its_own_language_definition_and_states():
    plain, swapped = (task().model_copy(update={"variant": v}) for v in (None, "lan"))
    assert (
        task_info(Object(), plain).language == "pick the alphabet soup and place it in the basket"
    )
    assert task_info(Object(), swapped).language == "grab alphabet soup and put it into basket"
    assert Object().make(swapped).task.definition() != Object().make(plain).task.definition()
    with pytest.raises(UsageError, match="has no variant 'language'"):
        Object().check(task().model_copy(update={"variant": "language"}))


def test_variants_have_no_official_demonstrations_unless_only_words_differ():
    learned = task(learning=LEARNING, observation="pixels", demonstrations="official")
    with pytest.raises(UsageError, match="no official demonstrations of the variant 'swap'"):
        Object().check(learned.model_copy(update={"variant": "swap"}))
    with pytest.raises(UsageError, match=r"no scripted expert for \S+@swap"):
        Object().check(task(learning=LEARNING).model_copy(update={"variant": "swap"}))


@pytest.mark.parametrize(
    ("protocol", "steps", "action", "size", "orientation", "numbers", "horizon"),
    [
        ("libero", 5, 0.0, 128, "none", 15, 600),
        ("openvla", 10, -1.0, 256, "rot180", 8, 280),
        ("lerobot", 10, -1.0, 256, "rot180", 8, 280),
    ],
)
def test_protocols_fill_in_what_is_not_set(
    protocol, steps, action, size, orientation, numbers, horizon
):
    """EVAL-13: how long and with which action objects settle is the protocol's."""
    wanted = task(observation="pixels", protocol=protocol)
    env = Object().make(wanted)
    assert (env.settle_steps, env.settle_action[6], env.orientation) == (steps, action, orientation)
    assert not env.settle_action[:6].any()
    assert env.horizon == horizon
    assert Object().make(wanted.model_copy(update={"horizon": 7})).horizon is None
    spaces = Object().spaces(wanted).observation
    assert spaces == env.observation_space
    assert spaces["agentview_rgb"].shape == (size, size, 3)
    assert spaces["proprio"].shape == (numbers,)
    assert task_info(Object(), wanted).horizon == horizon
    changed = task(observation="pixels", protocol=protocol, settle_steps=3, image_size=32)
    env = Object().make(changed)
    assert (env.settle_steps, env.orientation, env.image_size) == (3, orientation, 32)


def test_horizons_of_the_protocols():
    spatial = next(iter(Spatial().tasks()))
    long = next(iter(Long().tasks()))
    found = {
        protocol: (
            task_info(Spatial(), task(spatial, "libero/libero_spatial", protocol=protocol)).horizon,
            task_info(Long(), task(long, "libero/libero_10", protocol=protocol)).horizon,
        )
        for protocol in ("libero", "openvla", "lerobot")
    }
    assert found == {"libero": (600, 600), "openvla": (220, 520), "lerobot": (280, 520)}


def test_every_protocol_and_every_override_is_another_suite():
    from l2bench.suite import Suite, judge

    hashes = set()
    for settings in (
        {},
        {"protocol": "libero"},
        {"protocol": "openvla"},
        {"protocol": "lerobot"},
        {"protocol": "openvla", "orientation": "none"},
        {"protocol": "openvla", "canaries": "off"},
    ):
        data = {
            "id": "x",
            "version": "1",
            "title": "x",
            "tasks": [task(**settings).model_dump()],
            "scenario": {"kind": "blocks", "blocks": [{"evaluate": "all"}]},
            "seeds": [0],
        }
        hashes.add(judge(Suite, data, "x").hash)
    assert len(hashes) == 6


def test_a_missing_task_definition_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(installation, "root", lambda: tmp_path)
    with pytest.raises(Unsupported, match=r"definition of libero_object/\S+ is missing: no file"):
        Object().check(task())


def test_the_renderer_is_recorded_where_images_are_seen(monkeypatch):
    monkeypatch.setattr(rendering, "backend", lambda: "egl")
    environment = Object()
    environment.check(task())
    assert "renderer" not in environment.versions()
    environment.check(task(observation="pixels"))
    assert environment.versions()["renderer"] == "egl"


def test_no_renderer_is_looked_for_with_state_observations(monkeypatch):
    """REN-01: a machine without OpenGL runs what needs none."""

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
