"""Windows of LIBERO demonstrations a second: memory-mapped arrays against HDF5 by the sample.

    python benchmarks/libero_loader.py [--demos 50] [--steps 150] [--seconds 20]

A synthetic file of the official layout (two cameras of 128 pixels) is written to a temporary
folder. Windows of 10 frames in batches of 32 are then taken from it in two ways, interleaved in
rounds in one run: through a lesson on the arrays that the LIBERO plugin maps, and through a torch
DataLoader over a dataset that reads each window of each key from the HDF5 file: with one handle a
process that is kept open, in this process and with 4 workers, and with the file opened for each
window. All give tensors, images as uint8.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from l2bench.batches import DemonstrationLesson
from l2bench.suite import Learning
from l2bench_libero import cache
from l2bench_libero.hdf5 import Request

LENGTH, BATCH, SIZE = 10, 32, 128
CAMERAS = ("agentview_rgb", "eye_in_hand_rgb")
LOW = {"joint_states": 7, "gripper_states": 2, "ee_states": 6}
ROUNDS = 3


def write(path: Path, demos: int, steps: int) -> None:
    """Write random demonstrations in the official layout."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["num_demos"] = demos
        data.attrs["macros_image_convention"] = "opengl"
        for number in range(demos):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = steps
            demo["actions"] = rng.uniform(-1, 1, (steps, 7))
            demo["states"] = rng.normal(size=(steps, 110))
            demo["robot_states"] = rng.normal(size=(steps, 9))
            for key in ("rewards", "dones"):
                demo[key] = np.zeros(steps, np.uint8)
            for key, width in LOW.items():
                demo[f"obs/{key}"] = rng.normal(size=(steps, width))
            for key in CAMERAS:
                demo[f"obs/{key}"] = rng.integers(0, 256, (steps, SIZE, SIZE, 3), np.uint8)


class BySample(Dataset):
    """Windows read from the file when they are asked for; the end is filled with the last frame."""

    def __init__(self, path: Path, keep: bool) -> None:
        self.path, self.keep, self.file = path, keep, None
        with h5py.File(path) as file:
            lengths = {name: len(demo["actions"]) for name, demo in file["data"].items()}
        self.index = [(name, at, n) for name, n in lengths.items() for at in range(n)]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, item: int) -> dict[str, np.ndarray]:
        if not self.keep:
            with h5py.File(self.path) as file:
                return self.read(file, item)
        if self.file is None:  # in the process that reads: handles do not survive a fork
            self.file = h5py.File(self.path)
        return self.read(self.file, item)

    def read(self, file: h5py.File, item: int) -> dict[str, np.ndarray]:
        name, at, length = self.index[item]
        demo = file["data"][name]
        stop = min(at + LENGTH, length)
        keys = [*(f"obs/{key}" for key in (*CAMERAS, *LOW)), "actions"]
        return {key: self.window(demo[key][at:stop]) for key in keys}

    @staticmethod
    def window(rows: np.ndarray) -> np.ndarray:
        missing = LENGTH - len(rows)
        return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


def mapped(data, seed: int) -> Iterator[int]:
    learning = Learning(source="demonstrations", unit="epochs", amount=1000)
    lesson = DemonstrationLesson(data, learning, 0, 1000)
    for batch in lesson.windows(LENGTH, BATCH, np.random.default_rng(seed)):
        tensors = {key: torch.from_numpy(values) for key, values in batch.observations.items()}
        tensors["actions"] = torch.from_numpy(batch.actions)
        yield len(tensors["agentview_rgb"])


def by_sample(path: Path, workers: int, seed: int, keep: bool = True) -> Iterator[int]:
    while True:
        loader = DataLoader(
            BySample(path, keep),
            BATCH,
            shuffle=True,
            num_workers=workers,
            generator=torch.Generator().manual_seed(seed),
        )
        for batch in loader:
            yield len(batch["obs/agentview_rgb"])


def cpu() -> float:
    """Return the CPU time of this process and of the workers that are done, in seconds."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in both)


def rate(batches: Iterator[int], seconds: float) -> tuple[float, float]:
    """Return windows a second and CPU milliseconds a window, the workers' included."""
    began_cpu = cpu()
    for _ in range(2):
        next(batches)
    began, count = time.perf_counter(), 2 * BATCH
    warm = count
    while time.perf_counter() - began < seconds:
        count += next(batches)
    spent = time.perf_counter() - began
    batches.close()
    return (count - warm) / spent, 1000 * (cpu() - began_cpu) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demos", type=int, default=50)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=5.0, help="each way, each round")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "task_demo.hdf5"
        write(path, given.demos, given.steps)
        began = time.perf_counter()
        data = cache.demonstrations(path, Request(pairing="as_stored"), Path(name) / "cache")
        print(f"{path.stat().st_size / 1e6:.0f} MB, mapped in {time.perf_counter() - began:.1f} s")
        ways = {
            "memory-mapped": lambda seed: mapped(data, seed),
            "HDF5 kept open, no workers": lambda seed: by_sample(path, 0, seed),
            "HDF5 kept open, 4 workers": lambda seed: by_sample(path, 4, seed),
            "HDF5 opened by the sample": lambda seed: by_sample(path, 0, seed, keep=False),
        }
        found = {way: [] for way in ways}
        for seed in range(ROUNDS):
            for way, make in ways.items():
                found[way].append(rate(make(seed), given.seconds))
    ours = [wall for wall, _ in found["memory-mapped"]]
    for way, pairs in found.items():
        wall = statistics.median(w for w, _ in pairs)
        spent = statistics.median(c for _, c in pairs)
        ratio = statistics.median(a / w for a, (w, _) in zip(ours, pairs, strict=True))
        print(f"{way:32} {wall:7.0f} windows/s  {spent:6.3f} ms CPU each  {ratio:5.1f}x slower")


if __name__ == "__main__":
    main()
