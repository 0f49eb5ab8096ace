"""Windows of demonstrations: cut at trajectory ends, metered by their first frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l2bench.batches import DemonstrationLesson, gather
from l2bench.environment import Demonstrations
from l2bench.errors import RunFailed
from l2bench.suite import Learning


def lesson(lengths=(3, 1, 4), amount=1, start=0, stop=None, **observations):
    starts = np.cumsum([0, *lengths])
    numbers = np.arange(starts[-1])
    seen = observations or {"state": numbers[:, None] * 1.0}
    data = Demonstrations(seen, numbers[:, None] * 10.0, starts, {})
    learning = Learning(source="demonstrations", unit="epochs", amount=amount)
    return DemonstrationLesson(data, learning, start, amount if stop is None else stop)


def by_position(batches):
    rows = {}
    for batch in batches:
        for n, position in enumerate(batch.positions):
            seen = batch.observations["state"][n, :, 0].tolist()
            rows[int(position)] = (seen, batch.actions[n, :, 0].tolist(), batch.real[n].tolist())
    return rows


def test_windows_repeat_the_last_frame_of_their_trajectory():
    rows = by_position(lesson().windows(3, 4, np.random.default_rng(0)))
    assert rows[0] == ([0, 1, 2], [0, 10, 20], [True, True, True])
    assert rows[1] == ([1, 2, 2], [10, 20, 20], [True, True, False])
    assert rows[2] == ([2, 2, 2], [20, 20, 20], [True, False, False])
    assert rows[3] == ([3, 3, 3], [30, 30, 30], [True, False, False])
    assert rows[5] == ([5, 6, 7], [50, 60, 70], [True, True, True])
    assert sorted(rows) == list(range(8))


def test_actions_may_reach_further_than_observations():
    rows = by_position(lesson().windows(1, 8, np.random.default_rng(0), ahead=2))
    assert rows[4] == ([4], [40, 50, 60], [True, True, True])
    assert rows[6] == ([6], [60, 70, 70], [True, True, False])


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    length=st.integers(1, 5),
    size=st.integers(1, 12),
    epochs=st.integers(1, 3),
)
def test_every_pair_begins_one_window_an_epoch(lengths, length, size, epochs):
    whole = lesson(lengths, amount=epochs)
    batches = list(whole.windows(length, size, np.random.default_rng(0)))
    whole.close()
    begun = np.bincount(np.concatenate([b.positions for b in batches]))
    assert begun.tolist() == [epochs] * sum(lengths)
    assert [e.length for e in whole.experiences] == [sum(lengths)] * epochs
    for batch in batches:
        assert len(batch.positions) <= size
        assert batch.real[:, 0].all()
        trajectory = np.repeat(np.arange(len(lengths)), lengths)
        frames = batch.observations["state"][..., 0].astype(int)
        assert (trajectory[frames] == trajectory[frames[:, :1]]).all()


def test_windows_and_batches_come_in_the_same_order():
    one = [b.positions for b in lesson().windows(2, 3, np.random.default_rng(4))]
    other = [b.actions[:, 0] / 10 for b in lesson().batches(3, np.random.default_rng(4))]
    assert [list(a) for a in one] == [list(b) for b in other]


def test_images_mapped_from_a_file_stay_bytes(tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (8, 4, 4, 3)).astype(np.uint8)
    images.tofile(tmp_path / "images")
    mapped = np.memmap(tmp_path / "images", np.uint8, "r", shape=images.shape)
    for batch in lesson(image=mapped).windows(3, 4, np.random.default_rng(0)):
        held = batch.observations["image"]
        assert type(held) is np.ndarray
        assert held.dtype == np.uint8
        assert held.flags.writeable
        assert (held[:, 0] == images[batch.positions]).all()


def test_gather_is_plain_indexing():
    values = np.random.default_rng(0).normal(size=(9, 2, 3))[:, ::-1]
    positions = np.array([[0, 8, 3], [2, 2, 7]])
    assert (gather(values, positions) == values[positions]).all()


def test_batches_are_memory_of_their_own():
    kept = [b.actions for b in lesson().windows(2, 3, np.random.default_rng(0))]
    copies = [actions.copy() for actions in kept]
    assert all((a == b).all() for a, b in zip(kept, copies, strict=True))
    assert not any(np.shares_memory(kept[0], other) for other in kept[1:])


def test_skipping_uses_up_the_lesson_and_leaves_its_rows():
    skipped = lesson(amount=4, start=1, stop=3)
    skipped.skip()
    skipped.close()
    assert [e.length for e in skipped.experiences] == [8, 8]
    assert skipped.progress == 0.75
    assert list(skipped.windows(2, 4, np.random.default_rng(0))) == []


def test_leaving_the_windows_early_is_an_unused_budget():
    broken = lesson(amount=2)
    for _ in broken.windows(2, 3, np.random.default_rng(0)):
        break
    with pytest.raises(RunFailed, match="unused"):
        broken.close()


def test_starts_are_the_offsets_of_the_trajectories():
    given_out = lesson().starts
    assert given_out.tolist() == [0, 3, 4, 8]
    given_out[0] = 5  # a copy
    assert lesson().starts.tolist() == [0, 3, 4, 8]
