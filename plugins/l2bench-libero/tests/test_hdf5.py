"""Demonstration files: every defect has one message, and pairs are what they claim to be."""

import pickle
import re

import h5py
import numpy as np
import pytest

from l2bench.errors import RunFailed, Unsupported, UsageError
from l2bench_libero import hdf5


def test_shifted_pairs_an_action_with_the_observation_before_it(official):
    data = hdf5.read(official)
    assert data.origin["pairing"] == "shifted"
    assert list(data.starts) == [0, 4, 7]
    # obs[t] is t + 1: the observation before action t is t, and t = 0 has none.
    assert list(data.observations["proprio"][:, 0]) == [1, 2, 3, 4, 101, 102, 103]
    assert np.allclose(data.actions[:, 0] * 10, [1, 2, 3, 4, 1, 2, 3])
    assert list(data.observations["agentview_rgb"][:4, 0, 0, 0]) == [1, 2, 3, 4]


def test_as_stored_keeps_the_pairs_that_libero_trains_on(official):
    data = hdf5.read(official, pairing="as_stored")
    assert list(data.starts) == [0, 5, 9]
    assert list(data.observations["proprio"][:5, 0]) == [1, 2, 3, 4, 5]
    assert np.allclose(data.actions[:5, 0] * 10, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("pairing", ["shifted", "as_stored"])
def test_of_each_demonstration_the_first_pairs_are_kept(official, pairing):
    whole = hdf5.read(official, pairing=pairing)
    cut = hdf5.read(official, pairing=pairing, longest=4)
    assert np.diff(whole.starts).tolist() == ([4, 3] if pairing == "shifted" else [5, 4])
    assert np.diff(cut.starts).tolist() == ([4, 3] if pairing == "shifted" else [4, 4])
    kept = np.concatenate([np.arange(a, a + n) for a, n in zip(whole.starts, np.diff(cut.starts),
                                                               strict=False)])  # fmt: skip
    assert np.array_equal(cut.actions, whole.actions[kept])
    for key, values in whole.observations.items():
        assert np.array_equal(cut.observations[key], values[kept])
    assert cut.origin == whole.origin | {"longest": 4}


def test_types_and_shapes(official):
    data = hdf5.read(official)
    assert data.observations["proprio"].shape == (7, 15)
    assert data.observations["proprio"].dtype == np.float32
    assert data.observations["eye_in_hand_rgb"].shape == (7, 4, 4, 3)
    assert data.observations["eye_in_hand_rgb"].dtype == np.uint8
    assert data.actions.shape == (7, 7)
    assert data.actions.dtype == np.float32
    assert data.origin["sha256"] == hdf5.digest(official)


def test_demonstrations_come_by_number_not_by_name(tmp_path, write):
    path = write(tmp_path / "many.hdf5", lengths=[2] * 12)
    data = hdf5.read(path, pairing="as_stored")
    assert list(data.observations["proprio"][::2, 0]) == [100 * i + 1 for i in range(12)]
    assert len(hdf5.read(path, pairing="as_stored", count=3)) == 6


def test_nothing_keeps_the_file_open(official):
    """DAT-03: demonstrations hold no file and can be sent to other processes."""
    data = hdf5.read(official)
    assert len(pickle.loads(pickle.dumps(data))) == 7
    with h5py.File(official, "r+"):
        pass
    official.unlink()
    assert data.actions.sum() != 0


def test_unknown_or_impossible_requests(official):
    with pytest.raises(UsageError, match="did you mean 'shifted'"):
        hdf5.read(official, pairing="shiftet")
    with pytest.raises(UsageError, match="holds 2 demonstrations, asked for 3"):
        hdf5.read(official, count=3)
    with pytest.raises(UsageError, match="no LIBERO observation 'pixel'"):
        hdf5.read(official, "pixel")


def test_official_files_have_no_compact_state(official):
    with pytest.raises(Unsupported, match=r"/data/demo_0/obs/state: expected float \(5, 17\)"):
        hdf5.read(official, "state")


def test_missing_and_truncated_files(official, tmp_path):
    with pytest.raises(Unsupported, match=r"no demonstrations at .*absent\.hdf5"):
        hdf5.read(tmp_path / "absent.hdf5")
    whole = official.read_bytes()
    for kept in (len(whole) - 1024, 100, 0):
        official.write_bytes(whole[:kept])
        with pytest.raises(Unsupported, match=rf"\({kept} bytes\) is truncated or no HDF5"):
            hdf5.read(official)


DEMO = ("actions", "states", "robot_states", "rewards", "dones", "obs")
OBS = ("joint_states", "gripper_states", "ee_states", "agentview_rgb", "eye_in_hand_rgb")


@pytest.mark.parametrize(
    "key", ["/data", *(f"/data/demo_1/{k}" for k in DEMO), *(f"/data/demo_1/obs/{k}" for k in OBS)]
)
def test_each_missing_key_has_one_message(official, key):
    """DAT-05: every key is looked for before it is used."""
    with h5py.File(official, "r+") as file:
        del file[key]
    [problem] = hdf5.problems(official)
    assert problem.startswith(f"{official}: {key}: expected ")
    assert problem.endswith("found nothing")
    with pytest.raises(Unsupported, match=re.escape(f"{official}: {key}: expected")):
        hdf5.read(official)


def replace(file, key, values):
    del file[key]
    file[key] = values


@pytest.mark.parametrize(
    ("key", "values", "found"),
    [
        ("actions", np.zeros((4, 6)), r"expected float \(any, 7\), found float64 \(4, 6\)"),
        ("actions", np.zeros((0, 7)), r"expected float \(any, 7\), found float64 \(0, 7\)"),
        ("actions", np.zeros((4, 7), int), r"expected float \(any, 7\), found int64 \(4, 7\)"),
        ("actions", np.full((4, 7), 2.0), r"expected values in \[-1, 1\], found 2 to 2"),
        ("actions", np.full((4, 7), np.nan), r"expected values in \[-1, 1\], found nan to nan"),
        ("robot_states", np.zeros((4, 8)), r"expected float \(4, 9\), found float64 \(4, 8\)"),
        ("states", np.full((4, 6), np.inf), "expected finite numbers, found inf in row 0"),
        ("obs/ee_states", np.diag([1, 1, 1, 1, 1, np.nan])[2:], "found nan in row 3"),
        ("states", np.zeros((3, 6)), r"expected float \(4, any\), found float64 \(3, 6\)"),
        ("obs/ee_states", np.zeros(4), r"expected float \(4, 6\), found float64 \(4,\)"),
        ("obs/agentview_rgb", np.zeros((4, 2, 2, 3)), r"expected uint8 \(4, any, any, 3\)"),
        ("obs/agentview_rgb", np.zeros((4, 2, 2), np.uint8), r"found uint8 \(4, 2, 2\)"),
    ],
)
def test_wrong_shapes_types_and_values_are_named(official, key, values, found):
    with h5py.File(official, "r+") as file:
        replace(file, f"/data/demo_1/{key}", values)
    [problem] = hdf5.problems(official)
    assert f"/data/demo_1/{key}: " in problem
    assert re.search(found, problem)


@pytest.mark.parametrize("text", ["{", "[]", "null"])
def test_an_origin_that_is_no_object_is_named(official, text):
    with h5py.File(official, "r+") as file:
        file["data"].attrs["l2bench_origin"] = text
    [problem] = hdf5.problems(official)
    assert "/data attribute l2bench_origin: expected a JSON object" in problem


def test_wrong_and_missing_counts_are_named(official):
    with h5py.File(official, "r+") as file:
        file["data"].attrs["num_demos"] = 3
        file["data/demo_0"].attrs["num_samples"] = 9
        del file["data/demo_1"].attrs["num_samples"]
    assert [problem.split(": ", 1)[1] for problem in hdf5.problems(official)] == [
        "/data attribute num_demos: expected 2 (demo_*), found 3",
        "/data/demo_0 attribute num_samples: expected 5, found 9",
        "/data/demo_1 attribute num_samples: expected 4, found nothing",
    ]
    with pytest.raises(Unsupported, match=r"\(and 2 more\); get an intact file"):
        hdf5.read(official)


@pytest.mark.parametrize(
    ("attributes", "stored", "words"),
    [
        ({}, "none", None),
        ({"macros_image_convention": "opencv"}, "flipud", None),
        ({"macros_image_convention": "opencv"}, "none", "expected orientation 'none', found 'flip"),
        ({"image_orientation": "rot180"}, "rot180", None),
        ({"image_orientation": "rot180"}, "none", "(set stored_orientation: rot180 if the file"),
        (
            {"image_orientation": "upside"},
            "none",
            "expected one of none, flipud, fliplr, rot180, f",
        ),
        ({"macros_image_convention": None}, "none", "expected 'opengl' or 'opencv', found nothing"),
        ({"macros_image_convention": None}, "rot180", None),
        ({"macros_image_convention": "vulkan"}, "none", "'opengl' or 'opencv', found 'vulkan'"),
    ],
)
def test_images_of_another_orientation_are_named(official, attributes, stored, words):
    """DAT-02: a file whose images are turned otherwise is refused."""
    with h5py.File(official, "r+") as file:
        for name, value in attributes.items():
            if value is None:
                del file["data"].attrs[name]
            else:
                file["data"].attrs[name] = value
    found = hdf5.problems(official, "pixels", stored)
    assert len(found) == (words is not None)
    if words:
        assert words in found[0]
        with pytest.raises(Unsupported, match=re.escape(words)):
            hdf5.read(official, stored=stored)


def test_images_are_turned_as_asked(official):
    with h5py.File(official, "r+") as file:
        for name in ("demo_0", "demo_1"):
            file[f"data/{name}/obs/agentview_rgb"][:, 0, 0] = 255
    plain, turned = (
        hdf5.read(official, orientation=o).observations["agentview_rgb"] for o in ("none", "rot180")
    )
    assert (plain[:, 0, 0] == 255).all()
    assert (turned[:, 3, 3] == 255).all()
    assert np.array_equal(plain[:, ::-1, ::-1], turned)
    data = hdf5.read(official, orientation="rot180", proprio="hand")
    assert data.observations["proprio"].shape == (7, 8)
    assert data.origin["orientation"] == "rot180"


def test_a_dataset_in_place_of_a_demonstration(official):
    with h5py.File(official, "r+") as file:
        replace(file, "/data/demo_1", np.zeros(3))
    assert hdf5.problems(official) == [
        f"{official}: /data/demo_1: expected a group, found float64 (3,)"
    ]


def test_a_file_without_demonstrations(tmp_path, write):
    path = write(tmp_path / "empty.hdf5", lengths=[])
    assert "expected 1 (demo_*), found 0" in hdf5.problems(path)[0]


def episode(length, value):
    arrays = {
        "actions": np.full((length, 7), 0.5),
        "states": np.full((length, 6), value),
        "robot_states": np.full((length, 9), value),
        "rewards": np.zeros(length, np.uint8),
        "dones": np.zeros(length, np.uint8),
    }
    return arrays, {"state": np.full((length, 17), value, np.float32)}, np.zeros(6)


def test_what_is_written_reads_back_without_a_shift(tmp_path):
    path = tmp_path / "made" / "one.hdf5"
    with hdf5.Writer(path, {"env_name": "x"}, {"seed": 3}) as writer:
        assert not path.exists()
        writer.add(*episode(3, 1.0))
        writer.add(*episode(2, 2.0))
    data = hdf5.read(path, "state")
    assert list(data.starts) == [0, 3, 5]
    assert list(data.observations["state"][:, 0]) == [1, 1, 1, 2, 2]
    assert data.origin["pairing"] == "as_stored"
    assert data.origin["seed"] == 3
    assert [file.name for file in path.parent.iterdir()] == ["one.hdf5"]
    with pytest.raises(UsageError, match="recorded before the action"):
        hdf5.read(path, "state", pairing="shifted")


def test_an_interrupted_writer_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), hdf5.Writer(tmp_path / "x.hdf5", {}, {}) as writer:
        writer.add(*episode(3, 1.0))
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_the_same_demonstrations_give_the_same_bytes(tmp_path):
    for name in ("a.hdf5", "b.hdf5"):
        with hdf5.Writer(tmp_path / name, {"env_name": "x"}, {"seed": 3}) as writer:
            writer.add(*episode(3, 1.0))
    assert hdf5.digest(tmp_path / "a.hdf5") == hdf5.digest(tmp_path / "b.hdf5")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(RunFailed, match=r"cannot be written below .*taken.*set execution\.data"):
        hdf5.Writer(tmp_path / "taken" / "demos.hdf5", {}, {})
