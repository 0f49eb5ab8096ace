"""Mistakes of options, suites and observations that users of other benchmarks met."""

from __future__ import annotations

from typing import Any

import click
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from interop.builders import l2logger_folder, log_rows
from stubs import Stub, stubbed
from support import probe_suite, run_suite

from l2bench.builtin.probe import Probe, ProbeEnvironment
from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.cli.main import COMMANDS
from l2bench.cli.main import cli as group
from l2bench.environment import Environment, Spaces, TaskInfo
from l2bench.errors import RunFailed, Unsupported
from l2bench.interop import l2logger
from l2bench.interop.source import Options
from l2bench.probing import misfit
from l2bench.report.origin import warnings
from l2bench.suite import Learning


def only(folder):
    (path,) = find_bundles(folder)
    return read_bundle(path)


def moved(suite, environment: str, **more: Any):
    tasks = tuple(t.model_copy(update={"environment": environment, **more}) for t in suite.tasks)
    return suite.model_copy(update={"tasks": tasks})


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [0, 4])
def test_cfg_02_the_first_and_the_last_checkpoint_can_be_chosen(registry, tmp_path, checkpoint):
    """CFG-02: both ends of the budget are checkpoints that may turn out best."""
    agent = {0: "frozen", 4: "late_bloomer"}[checkpoint]
    run_suite(registry, probe_suite(1, scenario={"keep": "best"}), agent, tmp_path / "run")
    blocks = only(tmp_path / "run").lifetime.blocks.to_pylist()
    assert [b["selected_checkpoint"] for b in blocks if b["role"] == "post"] == [checkpoint]


def test_cfg_02_a_checkpoint_beyond_the_budget_is_refused():
    """CFG-02: one beyond the last is an error that says where the budget ends."""
    whole = {"source": "interaction", "unit": "episodes", "amount": 4}
    assert Learning(**whole, checkpoints=(0, 4)).checkpoints == (0, 4)
    with pytest.raises(ValueError, match="checkpoint 5 lies beyond amount 4"):
        Learning(**whole, checkpoints=(0, 5))


@pytest.mark.parametrize("device", ["mps", "gpu", "cud", "cuda:", "cuda:x", "CPU", ""])
def test_cfg_03_unknown_devices_are_refused_with_the_choices(cli, device):
    """CFG-03: nothing but the documented names is taken, and the error lists them."""
    code, _, errors = cli("plan", "quickstart", f"execution.device={device!r}")
    assert code == 2
    assert "device" in errors
    assert "auto, cpu, cuda or cuda:N" in errors


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["execution.keep_agents=true"], {"keep_agents": True}),
        (["execution.keep_agents=false"], {"keep_agents": False}),
        (["execution.keep_agents=True"], {"keep_agents": True}),
        (["+execution.keep_agents=true"], {"keep_agents": True}),
        (["execution.seeds=[1,2]"], {"seeds": [1, 2]}),
        (["execution.seeds=[1, 2]"], {"seeds": [1, 2]}),
        (["execution.seeds=[3]"], {"seeds": [3]}),
        (["execution.workers=2", "execution.workers=3"], {"workers": 3}),
    ],
)
def test_cfg_05_every_form_of_an_override(registry, given, expected):
    """CFG-05: yes, no, lists and repetitions mean the same in every release."""
    from l2bench.cli.compose import compose

    found = compose(registry, "quickstart", given).execution.model_dump(mode="json")
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["execution.keep_agents=maybe"], "keep_agents"),
        (["execution.keep_agents="], "keep_agents"),
        (["execution.seeds=1,2"], "seeds"),
        (["--json", "true"], "'true' is not an override"),
        (["--json=true"], "--json"),
        (["--no-json"], "No such option"),
    ],
)
def test_cfg_05_other_forms_are_refused(cli, given, words):
    """CFG-05: a form that could be read in two ways is an error."""
    code, _, errors = cli("plan", "quickstart", *given)
    assert code == 2, errors
    assert words in errors


def leaves(command: click.Command, name: str):
    if isinstance(command, click.Group):
        for part, child in command.commands.items():
            yield from leaves(child, f"{name} {part}")
    else:
        yield name, command


def test_cfg_06_one_name_for_one_thing_over_all_commands():
    """CFG-06: no option of any command is another's in a slightly different spelling."""
    spelled: dict[str, str] = {}
    kinds: dict[str, set[str]] = {}
    seen = 0
    for name in [*COMMANDS, "libero"]:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        for place, leaf in leaves(command, name):
            seen += 1
            for parameter in leaf.params:
                for flag in (opt for opt in parameter.opts if opt.startswith("--")):
                    folded = flag.replace("-", "").rstrip("s")
                    assert spelled.setdefault(folded, flag) == flag, place
                    kinds.setdefault(flag, set()).add(str(getattr(parameter, "is_flag", False)))
    assert seen > len(COMMANDS)
    assert all(len(kind) == 1 for kind in kinds.values()), kinds


def test_cfg_11_only_what_is_learned_from_is_looked_for(tmp_path, caplog, recwarn):
    """CFG-11: a suite that only evaluates says nothing of data that are not there."""

    class Careful(ProbeEnvironment):
        def check_data(self, task, data):
            raise Unsupported("no demonstrations below " + str(data))

    registry = stubbed(Stub, odd=Careful)
    scenario = {"kind": "blocks", "blocks": [{"evaluate": "all"}]}
    looking = moved(probe_suite(1, every=None, scenario=scenario), "l2bench/odd")
    cast_and_check(registry, looking, tmp_path)
    run_suite(registry, looking, "stub", tmp_path / "run")
    assert not caplog.messages
    assert not recwarn.list
    learning = moved(probe_suite(1), "l2bench/odd")
    with pytest.raises(Unsupported, match="no demonstrations below"):
        cast_and_check(registry, learning, tmp_path)


def cast_and_check(registry, suite, data):
    from l2bench.cast import AgentSpec, Cast, Execution

    Cast.gather(registry, suite, AgentSpec(name="stub"), Execution(data=data)).check_data()


def test_log_09_blocks_without_parameters_stay(tmp_path):
    """LOG-09: two blocks, the parameters of one empty: both are there."""
    rows = [
        {**row, "task_params": "" if row["block_num"] == "0" else '{"k": 1}'}
        for row in log_rows(("L", "a_1", [1, 2]), ("E", "a_1", [3]), ("L", "a_1", [4]))
    ]
    source = l2logger.read(l2logger_folder(tmp_path / "log", rows), Options())
    assert source.lifetime.blocks["kind"].to_pylist() == ["learn", "eval", "learn"]
    assert source.lifetime.learning.num_rows + source.lifetime.episodes.num_rows == 4


# -- what the agent is told -----------------------------------------------------------------------


class Asked(Stub):
    told: list[Any] = []  # noqa: RUF012

    def learn(self, lesson, task):
        self.told.append((task.id, task.language))
        super().learn(lesson, task)


NAMES = ["pick_bowl_view_0_100_noise_3", "put-the-cup-on-the-plate-7"]


@pytest.mark.parametrize("language", ["pick bowl", None])
def test_dat_10_an_instruction_is_a_field_and_never_a_name(tmp_path, monkeypatch, language):
    """DAT-10: the agent gets the instruction letter by letter, or none; ids mean nothing."""
    monkeypatch.setattr(Asked, "told", [])
    suite = probe_suite(2, every=None)
    tasks = tuple(
        task.model_copy(update={"id": name, "language": language})
        for task, name in zip(suite.tasks, NAMES, strict=True)
    )
    run_suite(stubbed(Asked), suite.model_copy(update={"tasks": tasks}), "stub", tmp_path / "run")
    assert Asked.told == [(name, language) for name in NAMES]


def test_dat_10_the_environments_instruction_is_taken_where_the_suite_has_none(
    tmp_path, monkeypatch
):
    """DAT-10: what the environment lists comes second, what the suite says first."""
    monkeypatch.setattr(Asked, "told", [])
    info = TaskInfo(frozenset({"interaction"}), language="grab it", horizon=1)
    odd = type("Odd", (ProbeEnvironment,), {"tasks": lambda self: dict.fromkeys(PROBES, info)})
    suite = moved(probe_suite(2, every=None), "l2bench/odd")
    first = suite.tasks[0].model_copy(update={"language": "pick bowl"})
    suite = suite.model_copy(update={"tasks": (first, suite.tasks[1])})
    run_suite(stubbed(Asked, odd=odd), suite, "stub", tmp_path / "run")
    assert [language for _, language in Asked.told] == ["pick bowl", "grab it"]


PROBES = [f"probe_{n}" for n in range(1, 10)]


@pytest.mark.parametrize(
    ("trained_on", "label"),
    [(["a", "b"], "Zero-shot: before its life the agent was trained on a, b, not on probe."),
     (["a", "probe"], None), ([], None), (None, None)],
)  # fmt: skip
def test_eval_14_an_agent_that_was_trained_elsewhere_is_labelled(tmp_path, trained_on, label):
    """EVAL-14: the suites an agent says it was trained on are recorded, and compared with this."""

    class Trained(Stub):
        def details(self):
            return {} if trained_on is None else {"trained_on": trained_on}

    run_suite(stubbed(Trained), probe_suite(1), "stub", tmp_path / "run")
    bundle = only(tmp_path / "run")
    told = [text for text in warnings([bundle]) if "Zero-shot" in text]
    assert told == ([label] if label else [])


# -- what is observed ------------------------------------------------------------------------------


class Idle(Probe):
    """Comes to rest in five steps of its own, then ends after ten of the agent's."""

    def reset(self, *, seed=None, options=None):
        self.moved = 0
        for _ in range(5):
            self.moved += 1
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.moved += 1
        observation, *_ = super().step(action)
        return observation, 0.0, False, False, {"success": self.moved == 15}


def test_eval_13_the_horizon_is_the_agents_alone(tmp_path):
    """EVAL-13: five steps to settle and a horizon of ten: the agent has ten steps."""
    methods = {
        "make": lambda self, task: Idle(),
        "tasks": lambda self: {"probe_1": TaskInfo(frozenset({"interaction"}))},
    }
    registry = stubbed(Resting, odd=type("Odd", (ProbeEnvironment,), methods))
    suite = moved(probe_suite(1, every=None), "l2bench/odd", horizon=10)
    run_suite(registry, suite, "stub", tmp_path / "run")
    rows = only(tmp_path / "run").lifetime.episodes
    assert set(rows["length"].to_pylist()) == {10}
    assert set(rows["score"].to_pylist()) == {1.0}


class Resting(Stub):
    def learn(self, lesson, task):
        while lesson.remaining:
            lesson.reset()
            while not any(lesson.step(0)[2:4]):
                pass


IMAGE = Dict(front=Box(0.0, 1.0, (2, 2, 3), np.float32), state=Box(-1, 1, (2,), np.float32))


def seen(**changes: Any) -> dict[str, Any]:
    good = {"front": np.ones((2, 2, 3), np.float32), "state": np.zeros(2, np.float32)}
    return {key: value for key, value in {**good, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (seen(), ""),
        (seen(state=np.zeros(2, np.float16)), ""),
        (seen(front=np.full((2, 2, 3), 200, np.uint8)),
         " ('front'): expected float32 (2, 2, 3) of 0 to 1, got uint8 (2, 2, 3) of 200 to 200"),
        (seen(front=np.zeros((2, 2, 3), np.uint8)), "expected float32 (2, 2, 3) of 0 to 1, got ui"),
        (seen(front=np.full((2, 2, 3), 255, np.float32)), "got float32 (2, 2, 3) of 255 to 255"),
        (seen(front=np.ones((3, 2, 2), np.float32)), "got float32 (3, 2, 2)"),
        (seen(state=np.zeros(2)), "('state'): expected float32 (2,) of -1 to 1, got float64 (2,)"),
        (seen(state=np.full(2, np.nan, np.float32)), "got float32 (2,) of nan to nan"),
        (seen(state=None), ": expected the keys ['front', 'state'], got ['front']"),
        (np.zeros(2), ": expected the keys ['front', 'state'], got float64 (2,) of 0 to 0"),
    ],
)  # fmt: skip
def test_dat_09_what_is_seen_is_compared_with_its_space(observation, words):
    """DAT-09: key, expected type, shape and range, and what came instead."""
    problem = misfit(observation, IMAGE)
    assert words in problem
    assert bool(words) == bool(problem)


def test_dat_09_other_spaces_decide_themselves():
    """DAT-09: whole numbers and texts belong to their space or not."""
    assert misfit(3, Discrete(4)) == ""
    assert misfit(4, Discrete(4)) == ": expected Discrete(4), got int64 () of 4 to 4"
    assert misfit("a", Text(3)) == ""


@pytest.mark.parametrize("source", ["make", "spaces"])
def test_dat_09_an_image_of_another_scale_stops_the_run(tmp_path, source):
    """DAT-09: bytes where the agent was promised fractions: refused before anything is learned."""
    promised = Spaces(Box(0.0, 1.0, (2, 2, 3), np.float32), Discrete(4))

    class Bytes(Probe):
        own = Box(0, 255, (2, 2, 3), np.uint8)
        observation_space = promised.observation if source == "make" else own

        def __init__(self):
            self._answer = 0
            self.action_space = promised.action

        def reset(self, *, seed=None, options=None):
            return np.full((2, 2, 3), 9, np.uint8), {"success": False}

    class Odd(ProbeEnvironment):
        def make(self, task):
            return Bytes()

        def spaces(self, task):
            return promised if source == "spaces" else Environment.spaces(self, task)

    suite = moved(probe_suite(1), "l2bench/odd")
    words = r"task 'task-1' \(l2bench/odd\): the first observation: expected float32 .* got uint8"
    with pytest.raises(RunFailed, match=words):
        run_suite(stubbed(Stub, odd=Odd), suite, "stub", tmp_path / "run")


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({"step": lambda self, action: (np.zeros(4, np.float32), 0.0, True, {})},
         r"step\(\) returned 4 values: the API of gym before 0.26; .*shimmy"),
        ({"step": lambda self, action: None}, r"step\(\) returned no values: the API of gym"),
        ({"reset": lambda self, *, seed=None, options=None: np.zeros(4, np.float32)},
         r"reset\(\) returned no \(observation, info\): the API of gym before"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("pretest", [True, False])
def test_ins_08_the_old_api_is_named_in_learning_and_evaluation(tmp_path, methods, words, pretest):
    """INS-08: which API was seen, and what to wrap the environment with."""
    live = type("Old", (Probe,), methods)
    odd = type("Odd", (ProbeEnvironment,), {"make": lambda self, task: live()})
    suite = moved(probe_suite(1, every=None, scenario={"pretest": pretest}), "l2bench/odd")
    with pytest.raises(RunFailed, match=words):
        run_suite(stubbed(Stub, odd=odd), suite, "stub", tmp_path / "run")
