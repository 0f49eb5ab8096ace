"""Memory-mapped demonstrations: the same as read, made once, whole or not at all."""

import json
import multiprocessing
import os
import shutil
import time

import h5py
import numpy as np
import pytest

from l2bench.errors import Unsupported
from l2bench_libero import cache, hdf5
from l2bench_libero.hdf5 import Request

PIXELS = Request()


def places(folder):
    return sorted(p for p in folder.iterdir() if p.is_dir())


@pytest.mark.parametrize(
    "request_",
    [
        PIXELS,
        Request(pairing="as_stored", count=1),
        Request(orientation="rot180", proprio="hand"),
        Request(longest=2),
    ],
)
def test_what_is_mapped_is_what_is_read(official, tmp_path, request_):
    mapped = cache.demonstrations(official, request_, tmp_path / "cache")
    read = hdf5.read(
        official,
        pairing=request_.pairing,
        count=request_.count,
        orientation=request_.orientation,
        proprio=request_.proprio,
        longest=request_.longest,
    )
    assert mapped.observations.keys() == read.observations.keys()
    for key, values in read.observations.items():
        assert isinstance(mapped.observations[key], np.memmap)
        assert mapped.observations[key].dtype == values.dtype
        assert np.array_equal(mapped.observations[key], values)
    assert np.array_equal(mapped.actions, read.actions)
    assert np.array_equal(mapped.starts, read.starts)
    assert mapped.origin == read.origin


def test_the_file_is_read_once_and_again_when_it_changes(official, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    first = cache.demonstrations(official, PIXELS, folder)
    with monkeypatch.context() as patch:
        patch.setattr(h5py, "File", None)
        patch.setattr(hdf5, "digest", None)
        again = cache.demonstrations(official, PIXELS, folder)
    assert np.array_equal(again.actions, first.actions)
    with h5py.File(official, "r+") as file:
        file["data/demo_0/actions"][1, 0] = 0.75
    changed = cache.demonstrations(official, PIXELS, folder)
    assert changed.actions[0, 0] == 0.75
    assert changed.origin["sha256"] != first.origin["sha256"]
    assert len(places(folder)) == 2


def test_requests_do_not_share_arrays(official, tmp_path):
    requests = (
        PIXELS, Request(pairing="as_stored"), Request(orientation="flipud"), Request(longest=2),
    )  # fmt: skip
    for request in requests:
        cache.demonstrations(official, request, tmp_path / "cache")
    assert len(places(tmp_path / "cache")) == 4


@pytest.mark.parametrize("harm", ["cut", "gone", "other"])
def test_a_damaged_cache_is_made_again(official, tmp_path, harm):
    folder = tmp_path / "cache"
    before = cache.demonstrations(official, PIXELS, folder).actions
    [place] = places(folder)
    victim = place / "agentview_rgb.npy"
    if harm == "cut":
        victim.write_bytes(victim.read_bytes()[:-10])
    elif harm == "gone":
        victim.unlink()
    else:
        np.save(victim, np.zeros(3))
    data = cache.demonstrations(official, PIXELS, folder)
    assert data.observations["agentview_rgb"].shape == (7, 4, 4, 3)
    assert np.array_equal(data.actions, before)
    assert places(folder) == [place]


def test_an_interrupted_build_leaves_nothing(official, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache.hdf5, "trajectories", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.demonstrations(official, PIXELS, tmp_path / "cache")
    assert places(tmp_path / "cache") == []


def test_what_a_dead_process_left_is_swept(official, tmp_path):
    folder = tmp_path / "cache"
    old, young = folder / ".old", folder / ".young"
    old.mkdir(parents=True)
    young.mkdir()
    long_ago = time.time() - 2 * 86400
    os.utime(old, (long_ago, long_ago))
    cache.demonstrations(official, PIXELS, folder)
    assert not old.exists()
    assert young.exists()


def build(path, folder, barrier, results):
    barrier.wait()
    data = cache.demonstrations(path, PIXELS, folder)
    results.put(int(data.observations["agentview_rgb"].sum()))


def test_two_processes_at_once(official, tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    arguments = (official, tmp_path / "cache", barrier, results)
    both = [context.Process(target=build, args=arguments) for _ in range(2)]
    for process in both:
        process.start()
    sums = {results.get(timeout=60) for _ in both}
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert sums == {int(hdf5.read(official).observations["agentview_rgb"].sum())}
    assert len(places(tmp_path / "cache")) == 1


def test_a_manifest_is_compared_first(official, tmp_path):
    size, sha256 = official.stat().st_size, hdf5.digest(official).removeprefix("sha256:")
    manifest = official.with_name("manifest.json")

    def write(**entry):
        manifest.write_text(json.dumps({"files": {official.name: entry}}))

    write(size=size, sha256=sha256)
    assert len(cache.demonstrations(official, PIXELS, tmp_path / "cache")) == 7
    write(size=size + 1024, sha256=sha256)
    with pytest.raises(Unsupported, match=rf"size: expected {size + 1024} bytes, found {size}; f"):
        cache.demonstrations(official, PIXELS, tmp_path / "cache")
    write(size=size, sha256="0" * 64)
    with pytest.raises(Unsupported, match=rf"sha256: expected 0{{64}}, found {sha256}; fetch it"):
        cache.demonstrations(official, PIXELS, tmp_path / "cache")
    manifest.write_text("{")
    with pytest.raises(Unsupported, match=r"manifest\.json is damaged"):
        cache.demonstrations(official, PIXELS, tmp_path / "cache")
    manifest.write_text(json.dumps({"files": {}}))
    assert len(cache.demonstrations(official, PIXELS, tmp_path / "cache")) == 7


def test_a_full_disk_is_one_line(official, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "open_memmap", full)
    with pytest.raises(
        Unsupported, match=r"cannot be kept at .* \(No space left on device\); make"
    ):
        cache.demonstrations(official, PIXELS, tmp_path / "cache")
    assert places(tmp_path / "cache") == []


def test_shared_initial_states_are_counted(official, tmp_path):
    """DAT-08: how many evaluation states also begin a demonstration."""
    with h5py.File(official) as file:
        first = np.stack([file[f"data/demo_{i}/states"][0] for i in range(2)])
    states = np.random.default_rng(1).normal(size=(50, 6))
    for at, row in ((3, 0), (7, 1), (9, 0)):
        states[at] = first[row]
        states[at, 0] = 99.0  # the time does not count
    data = cache.demonstrations(official, PIXELS, tmp_path / "cache", states)
    assert data.origin["initial_states"] == {
        "evaluation_states": 50,
        "also_first_states_of_demonstrations": 3,
    }
    other = cache.demonstrations(official, PIXELS, tmp_path / "cache", np.zeros((50, 8)))
    assert other.origin["initial_states"]["also_first_states_of_demonstrations"] is None


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(Unsupported, match=r"no demonstrations at .*absent\.hdf5"):
        cache.demonstrations(tmp_path / "absent.hdf5", PIXELS, tmp_path)


def test_the_arrays_outlive_the_file(official, tmp_path):
    data = cache.demonstrations(official, PIXELS, tmp_path / "cache")
    official.unlink()
    shutil.rmtree(tmp_path / "cache")
    assert data.observations["agentview_rgb"].max() > 0
