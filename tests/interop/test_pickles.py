"""Files of torch.save are read without torch, and nothing in them is ever run."""

from __future__ import annotations

import builtins
import collections
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from l2bench.errors import Unsupported
from l2bench.interop.torchfile import load

DATA = Path(__file__).parent / "data" / "libero"


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(path: Path, value, protocol: int = 2, *, plain: bool = False) -> Path:
    """Write a value as torch.save lays it out, or as a plain pickle."""
    raw = pickle.dumps(value, protocol=protocol)
    if plain:
        path.write_bytes(raw)
        return path
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("result/data.pkl", raw)
        archive.writestr("result/byteorder", "little")
        archive.writestr("result/version", "3\n")
    return path


def test_a_real_file_is_read():
    """INS-06: a pickle of arrays that others left is read without running it."""
    found = load(DATA / "result.pt", "result.pt")
    assert found["S_conf_mat"].tolist() == [[0.55, 0, 0], [0.2, 0.75, 0], [0.1, 0.6, 0.85]]
    assert found["S_conf_mat"].dtype == np.float64
    assert isinstance(found["k0_p0"], list)
    assert load(DATA / "task1_auc.log", "log")["success"].tolist() == [0, 0.5, 0.8]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("plain", [False, True])
def test_arrays_of_all_plain_types_come_back(tmp_path, protocol, plain):
    arrays = {
        "matrix": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "small": np.array([1, 2], dtype=np.int8),
        "big": np.array([1.5, -2], dtype=">f4"),
        "flags": np.array([True, False]),
        "nothing": np.array([]),
        "zero": np.array(3.25),
    }
    other = {"scalar": np.float64(0.5), "text": "\u00e9", "list": [1, (2, None)], "large": 2**80}
    found = load(saved(tmp_path / "x.pt", {**arrays, **other}, protocol, plain=plain), "x.pt")
    for name, expected in arrays.items():
        assert found[name].tolist() == expected.tolist(), name
        assert found[name].dtype == expected.dtype
    assert {name: found[name] for name in other} == other


def test_what_torch_writes_is_read(tmp_path):
    import torch

    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    value = collections.OrderedDict(
        tensor=tensor, part=tensor[1:, ::2], whole=torch.tensor([True, False]), array=np.ones(2),
        none=torch.empty(0), half=torch.tensor([0.5], dtype=torch.float16),
    )  # fmt: skip
    torch.save(value, tmp_path / "x.pt")
    found = load(tmp_path / "x.pt", "x.pt")
    for name, expected in value.items():
        assert found[name].tolist() == expected.tolist(), name
    torch.save({"a": np.arange(3.0)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert load(tmp_path / "old.pt", "old.pt")["a"].tolist() == [0, 1, 2]
    torch.save({"a": tensor}, tmp_path / "older.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(Unsupported, match=r"older.pt is refused.*torch before 1.6"):
        load(tmp_path / "older.pt", "older.pt")


ATTACKS = [
    (Call(os.system, "touch {mark}"), "posix.system"),
    (Call(builtins.eval, "open('{mark}', 'w')"), "builtins.eval|__builtin__.eval"),
    (Call(builtins.exec, "open('{mark}', 'w')"), "exec"),
    (Call(subprocess.check_output, ["touch", "{mark}"]), "check_output"),
    (Call(builtins.__import__, "antigravity"), "__import__"),
    (Call(np.load, "{mark}"), "numpy.load"),
    (Call(bytearray, 10**9), "bytearray"),
]


def with_mark(attack: Call, mark: Path) -> Call:
    function, arguments = attack.call
    filled = [
        a.format(mark=mark) if isinstance(a, str) else [p.format(mark=mark) for p in a]
        if isinstance(a, list) else a
        for a in arguments
    ]  # fmt: skip
    return Call(function, *filled)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("attack", "words"), ATTACKS)
def test_calls_are_refused_by_name_and_never_made(tmp_path, attack, words, plain):
    """INS-06: what a pickle wants to call is named and not called."""
    mark = tmp_path / "mark"
    for protocol in (0, 2, 4):
        value = {"S_conf_mat": np.eye(2), "extra": with_mark(attack, mark)}
        path = saved(tmp_path / "x.pt", value, protocol, plain=plain)
        with pytest.raises(Unsupported, match=rf"x.pt is refused: it holds .*({words})"):
            load(path, "x.pt")
        assert not mark.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"cos\nsystem\n(S'touch {mark}'\ntR.",
        b"(S'touch {mark}'\nios\nsystem\n.",
        b"(cos\nsystem\nS'touch {mark}'\no.",
        b"\x80\x02cos\nsystem\n)\x81.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0atouch {mark}\x85R.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Pstorage\n.",
        b"\x80\x02K\x01)R.",
        b"\x80\x02cnumpy\nndarray\n)R.",
        b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87Rb.",
        b"\x80\x02}cos\nsystem\nb.",
        b"\x80\x04\x8f.",
    ],
)
def test_handwritten_programs_are_refused(tmp_path, raw):
    mark = tmp_path / "mark"
    path = tmp_path / "x.pt"
    path.write_bytes(raw.replace(b"{mark}", str(mark).encode()))
    with pytest.raises(Unsupported, match=r"x\.pt is refused"):
        load(path, "x.pt")
    assert not mark.exists()


def test_nothing_is_imported(tmp_path):
    """Naming a module in a pickle imports it; here it does not."""
    path = tmp_path / "x.pt"
    path.write_bytes(b"cantigravity\nfly\n.")
    with pytest.raises(Unsupported, match=r"antigravity\.fly"):
        load(path, "x.pt")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("shape", "raw"),
    [((3,), 16), ((2**62, 4), 16), ((-2,), 16), ((2,), 15), (("a",), 16), ((1.5,), 16)],
)
def test_arrays_whose_bytes_do_not_fit_are_refused(tmp_path, shape, raw):
    class Fake:
        def __reduce__(self):
            reconstruct, arguments, state = np.zeros(2).__reduce__()
            return reconstruct, arguments, (1, shape, state[2], False, b"\0" * raw)

    with pytest.raises(Unsupported, match=r"x\.pt is refused"):
        load(saved(tmp_path / "x.pt", {"a": Fake()}), "x.pt")


def test_arrays_of_objects_and_records_are_refused(tmp_path):
    for array in (np.array([{}], dtype=object), np.zeros(2, dtype=[("a", "f8")])):
        with pytest.raises(Unsupported, match=r"x\.pt is refused"):
            load(saved(tmp_path / "x.pt", {"a": array}), "x.pt")


def test_every_cut_and_every_flipped_byte_is_a_clear_error_or_plain_data(tmp_path):
    """Damage never ends in anything but one line, and never in a call."""
    raw = pickle.dumps({"S_fwd": np.arange(3.0), "names": ["a", ("b", 1.5)]}, 2)
    path = tmp_path / "x.pt"
    rng = np.random.default_rng(0)
    damaged = [raw[:stop] for stop in range(len(raw))]
    for place in range(len(raw)):
        flipped = bytearray(raw)
        flipped[place] ^= int(rng.integers(1, 256))
        damaged.append(bytes(flipped))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            load(path, "x.pt")
        except Unsupported as error:
            refused += 1
            assert str(error).startswith("x.pt is")
            assert "\n" not in str(error)
    assert refused > len(raw)


def test_damaged_and_foreign_archives(tmp_path):
    raw = (DATA / "result.pt").read_bytes()
    path = tmp_path / "x.pt"
    for content, words in (
        (raw[: len(raw) // 2], "damaged"), (b"PK\3\4", "damaged"), (raw[:-10], "damaged"),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(Unsupported, match=f"x.pt is {words}"):
            load(path, "x.pt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no result")
    with pytest.raises(Unsupported, match=r"no data\.pkl"):
        load(path, "x.pt")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\0" * (257 * 1024 * 1024))
    with pytest.raises(Unsupported, match="a part of more than"):
        load(path, "x.pt")


def test_a_tensor_may_not_reach_beyond_its_storage(tmp_path):
    storage = ("storage", "torch.FloatStorage", "0", "cpu", 2)

    def program(size, stride, offset=0) -> bytes:
        def number(n):
            return b"J" + struct.pack("<i", n)

        def numbers(ns):
            return b"(" + b"".join(map(number, ns)) + b"t"

        reference = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu"
        reference += number(storage[-1]) + b"tQ"
        return (
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + reference + number(offset)
            + numbers(size) + numbers(stride) + b"\x89NtR."
        )  # fmt: skip

    def written(*arguments) -> Path:
        path = tmp_path / "x.pt"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/data.pkl", program(*arguments))
            archive.writestr("x/data/0", np.array([1, 2], dtype="<f4").tobytes())
        return path

    assert load(written((2,), (1,)), "x.pt").tolist() == [1, 2]
    assert load(written((1,), (1,), 1), "x.pt").tolist() == [2]
    for wrong in (((3,), (1,)), ((2,), (2,)), ((2,), (-1,)), ((1,), (1,), 2), ((1,), (1,), -1),
                  ((2**30, 2**10), (0, 0))):  # fmt: skip
        with pytest.raises(Unsupported, match=r"x\.pt is refused"):
            load(written(*wrong), "x.pt")
