"""The compact state, the robot's readings and the spaces, by worked examples."""

import numpy as np
import pytest

from l2bench.errors import UsageError
from l2bench_libero import observation as obs

GOALS = (obs.Goal("in", "soup", "basket"), obs.Goal("in", "milk", "basket"))


def snapshot(satisfied=(False, False)):
    return obs.Snapshot(
        eef=np.array([1.0, 2.0, 3.0]),
        hand_quaternion=np.array([0.0, 0.0, 0.0, 1.0]),
        joints=np.arange(7.0),
        fingers=np.array([0.04, -0.03]),
        finger_velocities=np.array([0.1, 0.2]),
        positions={
            "soup": np.array([1.5, 2.0, 0.25]),
            "milk": np.array([1.0, 3.0, 0.5]),
            "basket": np.array([2.0, 2.0, 0.0]),
        },
        satisfied=satisfied,
    )


def test_compact_state_in_its_documented_order():
    soup = obs.compact_state(snapshot(), GOALS)
    expected = [1, 2, 3, 0.4, -0.3, 0.1, 0.2, 0.5, 0, -2.75, 1, 0, -3, 0.5, 0, -0.25, 0.25]
    assert np.allclose(soup, expected)
    assert soup.dtype == np.float32
    assert sum(size for _, size in obs.STATE) == len(soup) == 17


@pytest.mark.parametrize(
    ("satisfied", "height"),
    [
        ((False, False), 0.25),
        ((True, False), 0.5),
        ((False, True), 0.25),
        ((True, True), 0.5),
    ],
)
def test_compact_state_is_about_the_first_condition_not_met(satisfied, height):
    assert obs.compact_state(snapshot(satisfied), GOALS)[-1] == pytest.approx(height)


@pytest.mark.parametrize(
    ("quaternion", "expected"),
    [
        ([0, 0, 0, 1], [0, 0, 0]),
        ([0, 0, np.sqrt(0.5), np.sqrt(0.5)], [0, 0, np.pi / 2]),
        ([1, 0, 0, 0], [np.pi, 0, 0]),
        ([0, np.sqrt(0.75), 0, -0.5], [0, 4 * np.pi / 3, 0]),
        ([0, 0, 0, 1.0000001], [0, 0, 0]),
    ],
)
def test_axis_angle(quaternion, expected):
    assert np.allclose(obs.axis_angle(np.array(quaternion, float)), expected)


def test_proprio_joins_joints_gripper_and_hand_also_for_many_rows():
    parts = obs.proprio_parts(snapshot())
    one = obs.proprio(parts)
    assert np.allclose(one, [0, 1, 2, 3, 4, 5, 6, 0.04, -0.03, 1, 2, 3, 0, 0, 0])
    many = obs.proprio({name: np.stack([values] * 3) for name, values in parts.items()})
    assert many.shape == (3, 15)
    assert (many == one).all()


def corners(*values):
    """Return a 4x4 image whose corners, row by row, have these values."""
    image = np.zeros((4, 4, 3), np.uint8)
    image[[0, 0, 3, 3], [0, 3, 0, 3]] = np.array(values)[:, None]
    return image


@pytest.mark.parametrize(
    ("orientation", "expected"),
    [
        ("none", (1, 2, 3, 4)),
        ("flipud", (3, 4, 1, 2)),
        ("fliplr", (2, 1, 4, 3)),
        ("rot180", (4, 3, 2, 1)),
    ],
)
def test_orientations_by_their_corners(orientation, expected):
    """DAT-02: each orientation has a name and its own picture."""
    turned = obs.turn(corners(1, 2, 3, 4), orientation)
    assert np.array_equal(turned, corners(*expected))
    assert turned.flags.c_contiguous
    film = obs.turn(np.stack([corners(1, 2, 3, 4)] * 3), orientation)
    assert np.array_equal(film, np.stack([corners(*expected)] * 3))


def test_orientations_combine_as_if_one_came_after_the_other():
    image = corners(1, 2, 3, 4)
    seen = {obs.turn(image, o).tobytes() for o in obs.ORIENTATIONS}
    assert len(seen) == 4
    for first in obs.ORIENTATIONS:
        for second in obs.ORIENTATIONS:
            both = obs.turn(obs.turn(image, first), second)
            assert np.array_equal(both, obs.turn(image, obs.combined(first, second)))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("full", [0, 1, 2, 3, 4, 5, 6, 0.04, -0.03, 1, 2, 3, 0, 0, 0]),
        ("joints", [0.04, -0.03, 0, 1, 2, 3, 4, 5, 6]),
        ("hand", [1, 2, 3, 0, 0, 0, 0.04, -0.03]),
    ],
)
def test_proprio_in_the_order_that_a_protocol_has(kind, expected):
    found = obs.proprio(obs.proprio_parts(snapshot()), kind)
    assert np.allclose(found, expected)
    assert obs.observation_space("pixels", 8, kind)["proprio"].shape == found.shape


def test_spaces():
    state = obs.observation_space("state")
    assert list(state) == ["state"]
    assert state["state"].shape == (17,)
    both = obs.observation_space("both", image_size=32)
    assert set(both) == {"state", "proprio", "agentview_rgb", "eye_in_hand_rgb"}
    assert both["agentview_rgb"].shape == (32, 32, 3)
    assert both["agentview_rgb"].dtype == np.uint8
    assert set(obs.observation_space("pixels")) == set(both) - {"state"}
    assert obs.action_space().shape == (7,)
    with pytest.raises(UsageError, match="did you mean 'pixels'"):
        obs.observation_space("pixel")
