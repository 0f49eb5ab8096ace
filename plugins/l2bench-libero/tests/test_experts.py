"""What the scripted experts do in constructed worlds: lengths in metres, basket at the origin."""

import numpy as np
import pytest

from l2bench.errors import UsageError
from l2bench_libero import experts
from l2bench_libero.observation import Goal, Snapshot
from l2bench_libero.tasks import find


def plus(point, x, y, z):
    return point + np.array([x, y, z])


SOUP = np.array([-0.3, 0.2, 0.04])
JOB = experts.Job(
    goal=Goal("in", "soup", "basket_contain_region"),
    container="basket",
    grasp=experts.Grasp(),
    low=-0.04,
    high=0.04,
    rim=0.15,
)
#: The fingers meet 1 cm above the position of this can: 3 cm below its top.
POINT = plus(SOUP, 0, 0, 0.01)
APART, AROUND = (0.04, -0.04), (0.03, -0.03)


class Bench:
    """Stands for the simulator: enough of it for an expert to be made."""

    task = find("libero_object", 0)
    goals = (JOB.goal,)

    @staticmethod
    def bounds(name):
        top = JOB.rim if name == "basket" else JOB.high
        return np.array([-0.03, -0.03, JOB.low]), np.array([0.03, 0.03, top])


def world(eef, item=SOUP, fingers=APART, moving=0.0):
    return Snapshot(
        eef=np.asarray(eef, float),
        hand_quaternion=np.array([1.0, 0, 0, 0]),
        joints=np.zeros(7),
        fingers=np.asarray(fingers),
        finger_velocities=np.array([moving, -moving]),
        positions={"soup": np.asarray(item, float), "basket": np.zeros(3)},
        satisfied=(False,),
    )


@pytest.fixture
def memoryless():
    expert = experts.make_expert(Bench())
    expert.restart()
    return expert


def test_far_away_it_moves_over_the_object_with_open_fingers(memoryless):
    decision = memoryless.act(world(plus(SOUP, 0.1, -0.1, 0.09)))
    assert list(decision.action) == [-1, 1, 0, 0, 0, 0, -1]
    assert decision.free


def test_close_above_it_moves_exactly_to_the_target(memoryless):
    action = memoryless.act(world(plus(POINT, 0.005, 0.0, 0.02))).action
    assert np.allclose(action, [-0.1, 0, -0.4, 0, 0, 0, -1])


def test_around_the_object_it_closes_and_waits_for_the_fingers(memoryless):
    for fingers, moving in ((APART, 0.0), (AROUND, 0.05)):
        decision = memoryless.act(world(POINT, fingers=fingers, moving=moving))
        assert list(decision.action) == [0, 0, 0, 0, 0, 0, 1]
        assert not decision.free


def test_with_the_object_held_it_lifts_first_and_then_carries(memoryless):
    low = memoryless.act(world(POINT, fingers=AROUND)).action
    assert list(low) == [0, 0, 1, 0, 0, 0, 1]
    high = plus(SOUP, 0, 0, 0.18)
    up = memoryless.act(world(plus(high, 0, 0, 0.01), high, AROUND)).action
    assert np.allclose(up, [1, -1, 0, 0, 0, 0, 1])


def test_over_the_basket_it_lets_go(memoryless):
    above = np.array([0.01, -0.01, 0.2])
    decision = memoryless.act(world(plus(above, 0, 0, 0.01), above, AROUND))
    assert list(decision.action) == [0, 0, 0, 0, 0, 0, -1]
    assert not decision.free


def test_beside_the_basket_it_rises_before_it_leaves(memoryless):
    action = memoryless.act(world([0.1, 0.0, 0.1])).action
    assert list(action) == [0, 0, 1, 0, 0, 0, -1]


def test_its_action_depends_on_the_present_alone(memoryless):
    seen = world(plus(SOUP, 0.1, -0.1, 0.09))
    first = memoryless.act(seen).action
    memoryless.act(world(POINT, fingers=AROUND))
    assert (memoryless.act(seen).action == first).all()


def test_the_phase_expert_goes_through_its_phases():
    expert = experts.make_expert(Bench(), "phase")
    expert.restart()
    expert.act(world(plus(SOUP, 0, 0, 0.14)))
    expert.act(world(POINT))
    closing = [expert.act(world(POINT, fingers=AROUND)).action for _ in range(14)]
    assert all(list(action) == [0, 0, 0, 0, 0, 0, 1] for action in closing)
    assert list(expert.act(world(POINT, fingers=AROUND)).action) == [0, 0, 1, 0, 0, 0, 1]


BOWL = np.array([0.2, 0.1, 0.0])


class Table(Bench):
    """A bowl, too wide for the fingers, to be put on a plate."""

    goals = (Goal("on", "soup", "basket"),)

    @staticmethod
    def bounds(name):
        top = 0.016 if name == "basket" else 0.052
        return np.array([-0.05, -0.0535, 0.0]), np.array([0.05, 0.0535, top])


@pytest.fixture
def setter():
    expert = experts.make_expert(Table())
    expert.restart()
    return expert


def test_what_is_wide_is_taken_by_its_rim(setter):
    rim = plus(BOWL, 0, 0.047, 0.022)
    assert setter.act(world(rim, BOWL)).action[6] == experts.CLOSE
    assert setter.act(world(plus(BOWL, 0, 0, 0.022), BOWL)).action[6] == experts.OPEN


def test_what_shall_be_on_something_is_put_down(setter):
    pinched = (0.003, -0.003)
    over = np.array([0.0, 0.0, 0.076])
    down = setter.act(world(plus(over, 0, 0.047, 0.022), over, pinched)).action
    assert list(down) == [0, 0, -1, 0, 0, 0, 1]
    resting = np.array([0.0, 0.0, 0.02])
    action = setter.act(world(plus(resting, 0, 0.047, 0.022), resting, pinched)).action
    assert list(action) == [0, 0, 0, 0, 0, 0, -1]


def test_tasks_without_an_expert_say_which_have_one():
    with pytest.raises(UsageError, match=r"in libero_10 there are experts for tasks 0, 4, 7"):
        experts.check_supported(find("libero_10", 2))
    with pytest.raises(UsageError, match="experts for tasks 6, 8"):
        experts.check_supported(find("libero_goal", 0))
    with pytest.raises(UsageError, match="no expert 'phases'"):
        experts.make_expert(Bench(), "phases")
