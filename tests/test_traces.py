"""Traces, and options of environments."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow.parquet as pq
import pytest
from hostile import Line, Lines
from playing import Walker, by_place, lines
from stubs import stubbed
from support import run_suite

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import UsageError
from l2bench.evaluation import digest
from l2bench.seeding import chosen


def test_digests_tell_observations_apart():
    one = np.arange(6, dtype=np.float32)
    known = [
        one, one.astype(np.float64), one.reshape(2, 3), {"a": one}, {"b": one}, {"a": {"b": one}},
        {"a": one, "b": one}, (one,), 1, np.int64(2),
    ]  # fmt: skip
    digests = [digest(each) for each in known]
    assert len(set(digests)) == len(known)
    assert all(len(each) == 16 for each in digests)
    assert digest({"a": one, "b": one * 2}) == digest({"b": one * 2, "a": one})
    assert digest(one.reshape(2, 3).T) == digest(np.ascontiguousarray(one.reshape(2, 3).T))
    expected = hashlib.blake2b(b"x\0<f4\0(6,)\0" + one.tobytes(), digest_size=16).digest()
    assert digest({"x": one}) == expected


def test_who_is_traced_follows_from_suite_seed_and_episode():
    drawn = [
        chosen(0.05, "sha256:" + "ab" * 32, 7, "traces", block, 0, episode)
        for block in range(50)
        for episode in range(40)
    ]
    assert 60 < sum(drawn) < 140
    assert not any(chosen(0, "sha256:" + "ab" * 32, 7, "traces", 1, 0, k) for k in range(100))
    assert all(chosen(1, "sha256:" + "ab" * 32, 7, "traces", 1, 0, k) for k in range(100))


def test_a_trace_can_be_replayed_without_the_agent(tmp_path):
    class Zigzag(Walker):
        def act(self, observations, acting):
            return by_place(observations, acting)

    registry, suite = lines("line", Zigzag)
    run_suite(registry, suite, "stub", tmp_path / "run", traces=1)
    (bundle,) = find_bundles(tmp_path / "run")
    episodes = read_bundle(bundle).lifetime.episodes.to_pylist()
    traces = pq.read_table(bundle / "tables" / "traces.parquet").to_pylist()
    assert len(traces) == sum(row["length"] for row in episodes)
    env = Line()
    key = ("block_index", "task_index", "episode_index")
    for row in episodes:
        env.reset(seed=row["env_seed"])
        mine = [step for step in traces if all(step[part] == row[part] for part in key)]
        assert [step["step"] for step in mine] == list(range(row["length"]))
        for step in mine:
            seen, reward, _, _, info = env.step(int(step["action"][0]))
            assert step["state_digest"] == digest(seen)
            assert step["reward"] == reward
        assert info["success"] == row["success"]


def test_no_trace_no_table(tmp_path):
    registry, suite = lines("line")
    run_suite(registry, suite, "stub", tmp_path / "run", traces=0)
    (bundle,) = find_bundles(tmp_path / "run")
    assert "traces" not in read_bundle(bundle).manifest.tables
    assert not (bundle / "tables" / "traces.parquet").exists()


def test_options_go_to_the_environments_they_name(registry, tmp_path):
    told = []

    class Told(Lines):
        def configure(self, options):
            told.append(dict(options))

        def conduct(self):
            return {"engine": told[-1].get("engine", "usual")}

    registry, suite = lines("line")
    registry = stubbed(Walker, lines=Told)
    options = {"l2bench": {"engine": "a", "other": 1}, "l2bench/lines": {"engine": "b"}}
    run_suite(registry, suite, "stub", tmp_path / "run", environments=options)
    assert told == [{"engine": "b", "other": 1}]
    (bundle,) = find_bundles(tmp_path / "run")
    execution = read_bundle(bundle).provenance.segments[-1].execution
    assert execution["environments"] == {"l2bench/lines": {"engine": "b"}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"l2bench": {"engin": 1}}, "Lines has no execution option 'engin'"),
        ({"l2bnch": {}}, r"names 'l2bnch' \(did you mean 'l2bench'\?\), which takes no part"),
    ],
)
def test_options_that_nobody_takes_are_refused(tmp_path, options, words):
    registry, suite = lines("line")
    with pytest.raises(UsageError, match=words):
        run_suite(registry, suite, "stub", tmp_path / "run", environments=options)
    assert not (tmp_path / "run").exists()
