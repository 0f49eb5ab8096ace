"""A policy in another process: what it is asked, what its answers may be, and how it fails."""

import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import l2bench_agents.serve as wire
from l2bench.agent import Acting, Life, TaskContext
from l2bench.batches import DemonstrationLesson
from l2bench.environment import Demonstrations, Spaces
from l2bench.errors import L2benchError, RunFailed, Unsupported, UsageError
from l2bench.suite import Learning, judge
from l2bench_agents.remote import Remote
from l2bench_agents.zero import Zero

SPACES = Spaces(
    Dict(state=Box(-9, 9, (2,), np.float32), camera=Box(0, 255, (4, 4, 3), np.uint8)),
    Box(-1, 1, (3,), np.float32),
)
TASK = TaskContext(SPACES, 4, "task_4", "do this")

#: A policy that answers with what it is told, with a memory of its own for each episode.
SERVER = """
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location("serve", sys.argv[1])
serve = importlib.util.module_from_spec(spec)
sys.modules["serve"] = serve
spec.loader.exec_module(serve)
assert not [name for name in sys.modules if name.startswith(("l2bench", "torch", "gymnasium"))]
import numpy as np

steps = {}

def policy(request):
    mode = request.instruction
    for slot, first in zip(request.slots.tolist(), request.first.tolist()):
        steps[slot] = 0 if first else steps[slot] + 1
    number = len(request.slots)
    if mode == "fail":
        raise ValueError("no such\\ngripper")
    if mode == "die":
        os._exit(1)
    if mode == "sleep":
        time.sleep(60)
    if mode == "shape":
        return np.zeros((number, 2))
    if mode == "nan":
        return np.full((number, 3), np.nan)
    if mode == "text":
        return np.array(["a"] * number)
    assert request.observations["camera"].dtype == np.uint8
    steps_now = [steps[slot] for slot in request.slots.tolist()]
    total = request.observations["camera"].astype(int).sum(axis=(1, 2, 3))
    answer = np.stack([request.observations["state"][:, 0], steps_now, total / 1000], axis=1)
    if mode == "ahead":
        return np.stack([answer + n / 10 for n in range(4)], axis=1)
    return answer

server = serve.Server(policy, sys.argv[2], name="echo", chunk=int(sys.argv[3]))
print(server.address, flush=True)
server.run()
"""


@pytest.fixture
def served(tmp_path):
    """Return a function that starts a server in a process of its own and returns its address."""
    script = tmp_path / "server.py"
    script.write_text(textwrap.dedent(SERVER))
    running = []

    def start(address="tcp://127.0.0.1:0", chunk=1):
        command = [sys.executable, "-I", str(script), wire.__file__, address, str(chunk)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process.stdout.readline().strip()

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def remote(address, task=TASK, **settings):
    chosen = judge(Remote.Settings, {"address": address, **settings}, "settings")
    return Remote(chosen, Life((task,), 0, "cpu"))


def acting(number, first=True, language="do this", slots=None):
    task = TaskContext(SPACES, 4, "task_4", language)
    slots = np.arange(number) if slots is None else np.asarray(slots)
    rngs = [np.random.default_rng(n) for n in range(number)]
    return Acting(task, slots, np.full(number, first), rngs)


def seen(number):
    images = np.arange(number * 48, dtype=np.uint8).reshape(number, 4, 4, 3)
    return {"state": np.linspace(-2, 0.5, number * 2).reshape(number, 2), "camera": images}


@pytest.mark.parametrize("where", ["tcp", "unix"])
def test_observations_go_there_and_actions_come_back(served, tmp_path, where):
    address = served("tcp://127.0.0.1:0" if where == "tcp" else f"unix:{tmp_path}/policy")
    agent = remote(address)
    assert agent.details() == {"address": address, "policy": "echo", "chunk": 1}
    observed = seen(3)
    first = agent.act(observed, acting(3))
    assert first.dtype == np.float32
    assert first[:, 0] == pytest.approx(np.clip(observed["state"][:, 0], -1, 1))
    assert first[:, 1].tolist() == [0, 0, 0]
    assert first[:, 2] == pytest.approx(np.clip(observed["camera"].sum((1, 2, 3)) / 1000, -1, 1))
    later = agent.act(seen(2), acting(2, first=False, slots=[2, 0]))
    assert later[:, 1].tolist() == [1, 1]
    again = agent.act(seen(2), acting(2, slots=[1, 2]))
    assert again[:, 1].tolist() == [0, 0]


def test_actions_planned_ahead_are_carried_out_together(served):
    address = served(chunk=4)
    assert remote(address).chunk == 4
    agent = remote(address, chunk=2)
    assert agent.chunk == 2
    planned = agent.act(seen(2), acting(2, language="ahead"))
    assert planned.shape == (2, 4, 3)
    assert planned[1, :, 0] == pytest.approx(-1 / 3 + np.arange(4) / 10)
    with pytest.raises(RunFailed, match=r"shape \(2, 3\); expected \(2, 2 or more, 3\)"):
        agent.act(seen(2), acting(2))
    single = remote(address, chunk=1)
    assert single.act(seen(2), acting(2, language="ahead")).shape == (2, 3)
    with pytest.raises(UsageError, match=r"chunk 9 was asked for.*plans 4 actions ahead"):
        remote(address, chunk=9)


@pytest.mark.parametrize(
    "mode, words",
    [
        ("fail", "failed: ValueError: no such gripper"),
        ("die", "is gone; start it again and go on with --resume"),
        ("sleep", "gave no answer within 0.5 s"),
        ("shape", "returned actions of shape (2, 2); expected (2, 3)"),
        ("nan", "returned actions that are not numbers"),
        ("text", "failed: TypeError: the policy returned <U1"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(served, mode, words):
    address = served()
    agent = remote(address, timeout=0.5 if mode == "sleep" else 20.0)
    with pytest.raises(RunFailed) as caught:
        agent.act(seen(2), acting(2, language=mode))
    assert words in str(caught.value)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_goes_on_after_its_policy_failed(served):
    address = served()
    with pytest.raises(RunFailed):
        remote(address).act(seen(1), acting(1, language="fail"))
    assert remote(address).act(seen(1), acting(1)).shape == (1, 3)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "unix:/nowhere/policy"])
def test_a_server_that_is_not_there_is_named_at_once(address):
    with pytest.raises(
        Unsupported, match=f"server at {address} cannot be reached .*start it first"
    ):
        remote(address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:80", "tcp://:80", "tcp://host", "unix:", "http://a:1"]
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match=r"neither tcp://HOST:PORT nor unix:PATH"):
        remote(address)


@pytest.fixture
def answering(tmp_path):
    """Return a function that answers one connection with these bytes."""
    listeners = []

    def start(answer):
        import threading

        path = str(tmp_path / f"fake{len(listeners)}")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)

        def run():
            connection, _ = listener.accept()
            with connection:
                wire.receive(connection)
                connection.sendall(answer)

        threading.Thread(target=run, daemon=True).start()
        return f"unix:{path}"

    yield start
    for listener in listeners:
        listener.close()


def message(text, magic=wire.MAGIC):
    return magic + len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize(
    "answer, words",
    [
        (message(b"{}", b"L2B\x02"), "messages of protocol 2 arrived; expected protocol 1"),
        (b"HTTP/1.1 400 Bad Request\r\n", "not a message of l2bench_agents.serve"),
        (message(b"not json"), "header of a message cannot be read"),
        (message(b'{"kind": "ready"}'), "header of a message cannot be read"),
        (wire.MAGIC + b"\xff\xff\xff\xff", "is too long"),
        (
            message(
                b'{"kind": "ready", "arrays": [{"name": "a", "dtype": "object", "shape": []}]}'
            ),
            "array 'a' is described as object",
        ),
        (
            message(
                b'{"kind": "ready", "arrays": [{"name": "a", "dtype": "int8", "shape": [-1]}]}'
            ),
            "array 'a' is described as int8 of shape",
        ),
        (
            message(b'{"arrays": [{"name": "a", "dtype": "int8", "shape": [9999999999]}]}'),
            "is too large",
        ),
        (message(b'{"kind": "ready", "chunk": 0, "arrays": []}'), "says chunk 0"),
        (message(b'{"kind": "odd", "arrays": []}'), "failed: its answer is of kind 'odd'"),
        (b"L2", "is gone"),
    ],
)
def test_answers_that_are_no_answers_are_refused(answering, answer, words):
    with pytest.raises(L2benchError) as caught:
        remote(answering(answer))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arrays_of_every_kind_survive_the_way():
    one, other = socket.socketpair()
    rng = np.random.default_rng(0)
    arrays = {
        dtype: np.asarray(rng.integers(0, 2, (2, 3, 0 if dtype == "int8" else 2))).astype(dtype)
        for dtype in wire.DTYPES
    }
    arrays["turned"] = np.arange(12.0).reshape(3, 4).T[::-1]
    arrays["big"] = np.arange(3, dtype=">f4")
    arrays["lone"] = np.array(7)
    with one, other:
        wire.send(one, {"kind": "x"}, arrays)
        header, found = wire.receive(other)
        with pytest.raises(wire.WireError, match="cannot be sent"):
            wire.send(one, {}, {"a": np.array(["text"])})
    assert header["kind"] == "x"
    for name, values in arrays.items():
        assert np.array_equal(found[name], values), name
        assert found[name].dtype == values.dtype.newbyteorder("=")


def lesson(epochs=2):
    data = Demonstrations({"state": np.zeros((6, 2))}, np.zeros((6, 3)), np.array([0, 6]), {})
    learning = Learning(source="demonstrations", unit="epochs", amount=epochs)
    return DemonstrationLesson(data, learning, 0, epochs)


def test_it_passes_over_lessons_and_returns_to_the_same_policy(served, tmp_path):
    address = served()
    agent = remote(address)
    taught = lesson()
    agent.learn(taught, TASK)
    taught.close()
    assert len(taught.experiences) == 2
    agent.save(tmp_path)
    agent.load(tmp_path)
    (tmp_path / "remote.json").write_text('{"name": "another"}')
    with pytest.raises(Unsupported, match="serves 'echo', but this lifetime began with 'another'"):
        agent.load(tmp_path)


def test_labels_come_back_as_whole_numbers(answering):
    task = TaskContext(Spaces(Box(0, 1, (1,)), Discrete(3)))
    agent = remote(answering(message(b'{"kind": "ready", "chunk": 1, "arrays": []}')), task)
    fitted = agent._fitting(np.array([1.0, 2.0]), task.spaces.action, 2)
    assert fitted.tolist() == [1, 2]
    assert fitted.dtype == np.int64
    for wrong in (np.zeros(3), np.zeros((2, 2, 2)), np.zeros(())):
        with pytest.raises(RunFailed, match=r"expected \(2\)"):
            agent._fitting(wrong, task.spaces.action, 2)


def test_the_file_to_copy_needs_numpy_alone():
    text = Path(wire.__file__).read_text()
    assert "l2bench." not in text.replace("l2bench_agents.", "")


@pytest.mark.parametrize(
    "space, action",
    [
        (Box(-1, 1, (3,), np.float32), [0, 0, 0]),
        (Box(np.array([1.0, -3.0]), np.array([2.0, -2.0]), dtype=np.float64), [1, -2]),
        (Discrete(4, start=2), 2),
    ],
)
def test_zero_acts_with_what_is_nearest_to_zero(tmp_path, space, action):
    task = TaskContext(Spaces(Box(0, 1, (1,)), space))
    agent = Zero(Zero.Settings(), Life((task,), 0))
    taught = lesson()
    agent.learn(taught, task)
    taught.close()
    told = Acting(task, np.arange(2), np.ones(2, bool), [])
    acted = agent.act(np.zeros((2, 1)), told)
    assert acted.tolist() == [action, action]
    assert space.contains(acted[0])
    agent.save(tmp_path)
    agent.load(tmp_path)
    assert agent.fingerprint() == "zero"
