"""Evaluation episodes as MP4 files."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from l2bench.errors import RunFailed

#: Which filmed episodes are kept.
Film = Literal["none", "failed", "all"]


def encode(frames: Sequence[Any], metadata: Mapping[str, Any]) -> bytes:
    """Return frames (H, W, 3) uint8 as an MP4 file (H.264), the last one shown twice.

    ``metadata["render_fps"]`` is the rate, 20 where it is not given. Odd sides gain a row or column
    of copies, which H.264 needs.

    Raises:
        RunFailed: if the frames are of another shape or cannot be encoded.
    """
    import imageio_ffmpeg

    shown = np.stack([np.asarray(frame, dtype=np.uint8) for frame in (*frames, frames[-1])])
    if shown.ndim != 4 or shown.shape[3] != 3:
        raise RunFailed(f"render() gave frames of shape {shown.shape[1:]}; expected (H, W, 3)")
    odd = [(0, side % 2) for side in shown.shape[1:3]]
    shown = np.pad(shown, [(0, 0), *odd, (0, 0)], mode="edge")
    _, height, width, _ = shown.shape
    rate = float(metadata.get("render_fps") or 20)
    with tempfile.TemporaryDirectory(prefix="l2bench-video-") as scratch:
        target = Path(scratch) / "episode.mp4"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-f", "rawvideo"]
        command += ["-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:g}", "-i", "-"]
        command += ["-c:v", "libx264", "-crf", "23", "-pix_fmt", "yuv420p", "-threads", "1"]
        command += ["-fflags", "+bitexact", "-movflags", "+faststart", str(target)]
        done = subprocess.run(command, input=shown.tobytes(), capture_output=True, check=False)
        if done.returncode:
            raise RunFailed(f"a video cannot be written: {done.stderr.decode(errors='replace')}")
        return target.read_bytes()
