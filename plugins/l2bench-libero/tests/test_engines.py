"""Which engine plays the episodes, and what is said when it is another one than was asked for."""

import logging

import pytest

from l2bench.cast import AgentSpec, Cast, Execution
from l2bench.errors import Unsupported, UsageError
from l2bench.plugins import Registry
from l2bench.suite import Suite, Task, judge
from l2bench_libero import engines, installation
from l2bench_libero.environment import Object
from l2bench_libero.reference import ReferenceEnv
from l2bench_libero.simulator import LiberoEnv

NAME = "pick_up_the_alphabet_soup_and_place_it_in_the_basket"
TASK = Task(id="soup", environment="libero/libero_object", task=NAME)


def configured(**options):
    suite = Object()
    suite.configure(options)
    return suite


def test_the_lean_engine_is_the_usual_one():
    suite = configured()
    assert type(suite.make(TASK)) is LiberoEnv
    assert suite.conduct() == {"engine": "lean"}


def test_the_reference_engine_is_asked_for_by_name():
    suite = configured(engine="reference")
    assert type(suite.make(TASK)) is ReferenceEnv
    assert suite.conduct() == {"engine": "reference"}


def test_the_engine_is_no_part_of_the_versions_that_results_depend_on():
    assert configured().versions() == configured(engine="reference").versions()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engin": "lean"}, r"no execution option 'engin' \(did you mean 'engine'\?\)"),
        ({"engine": "referense"}, r"no engine 'referense' \(did you mean 'reference'\?\)"),
        ({"engine": 1}, r"no engine 1; choose lean, reference"),
    ],
)
def test_unknown_options_and_engines_name_the_nearest(options, words):
    with pytest.raises(UsageError, match=words):
        configured(**options)


@pytest.fixture
def newer(monkeypatch):
    monkeypatch.setattr(installation, "version", lambda name: "3.3.7")


def test_an_unverified_simulator_is_played_by_libero_itself(newer, caplog):
    with caplog.at_level(logging.WARNING, "l2bench"):
        suite = configured()
        assert type(suite.make(TASK)) is ReferenceEnv
        suite.make(TASK)
    assert caplog.messages == [
        "mujoco 3.3.7: the lean engine is verified on 3.3.0 only, so LIBERO's own, slower one "
        "is used"
    ]
    assert suite.conduct() == {"engine": "reference"}


def test_the_lean_engine_is_refused_on_an_unverified_simulator(newer):
    assert engines.choose("reference") == "reference"
    with pytest.raises(
        Unsupported, match=r"verified on mujoco 3\.3\.0 only, this is 3\.3\.7; leave"
    ):
        configured(engine="lean").make(TASK)


def test_the_pinned_simulator_is_verified():
    assert installation.MUJOCO in installation.VERIFIED


def test_workers_may_be_forked_where_nothing_is_rendered():
    assert Object().forks(TASK)
    pixels = TASK.model_copy(update={"settings": {"observation": "pixels"}})
    assert not Object().forks(pixels)


@pytest.mark.parametrize("name", ["libero", "libero/libero_object"])
def test_a_run_passes_the_engine_on_and_the_suite_stays_the_same(name):
    task = {"id": "soup", "environment": "libero/libero_object", "task": NAME, "horizon": 10,
            "learning": {"source": "interaction", "unit": "episodes", "amount": 1}}  # fmt: skip
    data = {"id": "one", "version": "1", "title": "one", "tasks": [task], "seeds": [0],
            "scenario": {"kind": "sequential", "episodes": 1}}  # fmt: skip
    suite = judge(Suite, data, "one")
    execution = Execution(environments={name: {"engine": "reference"}})
    cast = Cast.gather(Registry(), suite, AgentSpec(name="random"), execution)
    assert cast.record()["environments"] == {"libero/libero_object": {"engine": "reference"}}
    usual = Cast.gather(Registry(), suite, AgentSpec(name="random"), Execution())
    assert cast.suite.hash == usual.suite.hash
