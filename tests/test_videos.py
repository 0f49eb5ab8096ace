"""Videos of evaluation episodes."""

from __future__ import annotations

import subprocess

import imageio_ffmpeg
import numpy as np
import pytest
from playing import lines
from support import run_suite

from l2bench.bundle.reader import find_bundles, read_bundle
from l2bench.errors import RunFailed, Unsupported
from l2bench.evaluation.video import encode


def frames_of(path, height, width):
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", path]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3).astype(int)


@pytest.mark.parametrize(
    ("videos", "workers", "kept"),
    [("none", 0, []), ("first", 0, [0]), ("failed", 2, None), ("all", 2, [0, 1, 2])],
)
def test_videos_show_the_episodes_asked_for(tmp_path, videos, workers, kept):
    registry, suite = lines("filmed")
    (task,) = suite.tasks
    suite = suite.model_copy(update={"tasks": (task.model_copy(update={"horizon": 6}),)})
    run_suite(registry, suite, "stub", tmp_path / "run", videos=videos, workers=workers)
    (bundle,) = find_bundles(tmp_path / "run")
    rows = [r for r in read_bundle(bundle).lifetime.episodes.to_pylist() if r["block_index"] == 0]
    if kept is None:
        kept = [row["episode_index"] for row in rows if not row["success"]]
        assert 0 < len(kept) < 3
    paths = sorted(path.name for path in bundle.glob("videos/block-000000__*"))
    assert paths == [f"block-000000__task-1__{index:04d}.mp4" for index in kept]
    recorded = read_bundle(bundle).manifest.files
    for index, path in zip(kept, paths, strict=True):
        assert f"videos/{path}" in recorded
        frames = frames_of(bundle / "videos" / path, 16, 24)
        assert len(frames) == rows[index]["length"] + 2
        assert np.abs(frames[3] - 60).max() < 8


def test_a_task_without_frames_is_told_once(tmp_path, caplog):
    registry, suite = lines("line")
    run_suite(registry, suite, "stub", tmp_path / "run", videos="all")
    told = [message for message in caplog.messages if "no video" in message]
    (line,) = told
    assert line.startswith("no video of task 'task-1': its environment, as it is set, offers no")


def test_odd_sides_are_no_hindrance(tmp_path):
    (tmp_path / "odd.mp4").write_bytes(encode([np.full((17, 25, 3), 200, np.uint8)] * 3, {}))
    frames = frames_of(tmp_path / "odd.mp4", 18, 26)
    assert len(frames) == 4
    assert np.abs(frames - 200).max() < 8


def test_frames_that_are_no_images_are_refused():
    with pytest.raises(RunFailed, match=r"frames of shape \(5, 5\); expected \(H, W, 3\)"):
        encode([np.zeros((5, 5))], {})


def test_a_missing_library_is_named_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("l2bench.cast.find_spec", lambda name: None)
    registry, suite = lines("filmed")
    with pytest.raises(
        Unsupported, match=r"videos=all needs imageio-ffmpeg.*pip install 'l2bench\[video"
    ):
        run_suite(registry, suite, "stub", tmp_path / "run", videos="all")
    assert not (tmp_path / "run").exists()
