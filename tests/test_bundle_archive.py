"""Archives of bundles: the same bytes every time, and every rule of reading broken once."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from l2bench.bundle import archive
from l2bench.bundle.archive import (
    ArchiveFault,
    extract_archive,
    inspect_archive,
    open_archive,
    write_archive,
)
from l2bench.errors import L2benchError, UsageError

FILES = {"manifest.json": b"{}", "tables/blocks.parquet": b"PAR1 and so on PAR1", "README.md": b"#"}


def zipped(path: Path, entries: dict[str, bytes] | list[tuple[str, bytes]] = FILES, **changes):
    """Write a zip file of these entries; ``changes`` are set on every entry."""
    pairs = entries.items() if isinstance(entries, dict) else entries
    with zipfile.ZipFile(path, "w") as file:
        for name, data in pairs:
            info = zipfile.ZipInfo(name)
            info.filename = name
            for key, value in changes.items():
                setattr(info, key, value)
            file.writestr(info, data)
    return path


def codes(path: Path) -> set[str]:
    faults = inspect_archive(path)
    for fault in faults:
        assert fault.message
        assert "\n" not in str(fault)
        assert fault.exit_code == 3
    return {fault.code for fault in faults}


@pytest.fixture
def x(tmp_path) -> Path:
    return tmp_path / "x.l2b.zip"


def test_what_is_written_is_read_and_the_same_every_time(tmp_path):
    folder = tmp_path / "in"
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    one, two = tmp_path / "one.l2b.zip", tmp_path / "two.l2b.zip"
    write_archive(folder, list(FILES), one)
    (folder / "manifest.json").touch()
    write_archive(folder, list(reversed(FILES)), two)
    assert one.read_bytes() == two.read_bytes()
    assert inspect_archive(one) == []
    opened = open_archive(one)
    assert {name: opened.read(name) for name in opened.names} == FILES
    opened.close()
    extract_archive(one, tmp_path / "out")
    found = {p.relative_to(tmp_path / "out").as_posix(): p.read_bytes()
             for p in (tmp_path / "out").rglob("*") if p.is_file()}  # fmt: skip
    assert found == FILES
    with pytest.raises(UsageError, match="exists already"):
        extract_archive(one, tmp_path / "out")
    with pytest.raises(UsageError, match="exists already"):
        write_archive(folder, list(FILES), one)


def test_one_folder_around_everything_is_looked_through(x, tmp_path):
    zipped(x, {f"name.l2b/{name}": data for name, data in FILES.items()})
    opened = open_archive(x)
    assert set(opened.names) == set(FILES)
    assert opened.read("manifest.json") == b"{}"
    opened.close()
    extract_archive(x, tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../manifest.json", "leads out"), ("a/../../b.json", "leads out"), ("/a.json", "absolute"),
        ("C:/a.json", "absolute"), ("a\\b.json", "backslash"), ("a\nb.json", "control"),
        ("a\u202eb.json", "control"), ("./a.json", "a dot"), ("a//b.json", "empty part"),
        ("cafe\u0301.json", "composed"), (f"{'a' * 200}.json", "longer"),
        ("a/b/c/d/e/f.json", "deeper"), ("aux.json", "Windows"), ("nul/x.json", "Windows"),
        ("a ./b.json", "ends in a dot or a space"),
    ],
)  # fmt: skip
def test_a02_names(x, name, words):
    zipped(x, {**FILES, name: b"{}"})
    (fault,) = inspect_archive(x)
    assert fault.code == "A02"
    assert words in fault.message
    with pytest.raises(ArchiveFault):
        extract_archive(x, x.parent / "out")
    assert not (x.parent / "out").exists()


def test_a01_what_is_no_plain_zip(x, tmp_path):
    assert codes(tmp_path / "missing.l2b.zip") == {"A01"}
    assert codes(tmp_path) == {"A01"}
    for data in (b"", b"not a zip", b"PK\x05\x06" + bytes(18)):
        x.write_bytes(data)
        assert codes(x) == {"A01"}
    whole = zipped(x).read_bytes()
    x.write_bytes(whole[: len(whole) // 2])
    assert codes(x) == {"A01"}
    encrypted = bytearray(whole)
    encrypted[6] |= 1
    at = whole.index(b"PK\x01\x02")
    encrypted[at + 8] |= 1
    x.write_bytes(encrypted)
    assert codes(x) == {"A01"}
    disks = bytearray(whole)
    disks[-18] = 1
    x.write_bytes(disks)
    assert codes(x) == {"A01"}
    damaged = bytearray(whole)
    damaged[whole.index(b"and so on")] ^= 1
    x.write_bytes(damaged)
    assert codes(x) == {"A01"}
    link = tmp_path / "link.l2b.zip"
    link.symlink_to(zipped(x))
    assert codes(link) == {"A01"}
    zipped(x, compress_type=zipfile.ZIP_LZMA)
    assert codes(x) == {"A01"}


def test_a03_links_and_special_files(x):
    for kind in (0o120000, 0o020000, 0o010000):
        zipped(x, {"manifest.json": b"{}"}, external_attr=(kind | 0o644) << 16, create_system=3)
        assert codes(x) == {"A03"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a04_names_that_are_there_twice(x):
    zipped(x, [("manifest.json", b"{}"), ("manifest.json", b"{}")])
    assert codes(x) == {"A04"}
    zipped(x, [("manifest.json", b"{}"), ("a.json", b"{}"), ("A.json", b"{}")])
    assert codes(x) == {"A04"}
    zipped(x, [("manifest.json", b"{}"), ("a.json", b"{}"), ("a.json/b.json", b"{}")])
    assert codes(x) == {"A04"}


def test_a05_bombs_and_overlaps(x, monkeypatch):
    zipped(x, {"manifest.json": b" " * 2**20}, compress_type=zipfile.ZIP_DEFLATED)
    assert codes(x) == {"A05"}
    zipped(x, {"manifest.json": b" " * 2000}, compress_type=zipfile.ZIP_DEFLATED)
    assert codes(x) == set()  # a ratio says nothing of small files
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    assert codes(x) == {"A05"}
    monkeypatch.setattr(archive, "MOST_ENTRIES", 2)
    assert codes(zipped(x)) == {"A05"}
    monkeypatch.undo()
    whole = bytearray(zipped(x).read_bytes())
    second = whole.index(b"PK\x01\x02", whole.index(b"PK\x01\x02") + 4)
    whole[second + 42 : second + 46] = struct.pack("<I", 0)  # both entries at the same place
    x.write_bytes(whole)
    assert "A05" in codes(x)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("state.pt", b"x"), ("a.npz", b"x"), ("a.pyc", b"x"), ("a.so", b"x"), ("noending", b"x"),
        ("a.json", b"\x80\x04\x95pickle"), ("a.jsonl", b"\xff\xfe"), ("a.md", b"a\0b"),
        ("a.parquet", b"PAR1 without an end"), ("a.parquet", b"\x93NUMPY"), ("a.mp4", b"x" * 20),
        ("a.parquet", b"\x89HDF\r\n"),
    ],
)  # fmt: skip
def test_a06_kinds_of_files(x, name, data):
    assert codes(zipped(x, {**FILES, name: data})) == {"A06"}


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\x28\xb5\x2f\xfd"])
def test_a07_archives_inside(x, data):
    assert codes(zipped(x, {**FILES, "a.parquet": data + bytes(100)})) == {"A07"}


def test_a07_hidden_data(x):
    whole = zipped(x).read_bytes()
    x.write_bytes(whole + b"more")
    assert codes(x) == {"A07"}
    x.write_bytes(b"#!/bin/sh\n" + whole)
    assert codes(x) == {"A07"}
    with zipfile.ZipFile(zipped(x), "a") as file:
        file.comment = b"hello"
    assert codes(x) == {"A07"}
    at = whole.index(b"PK\x01\x02")
    end = bytearray(whole[at:])
    place = struct.unpack("<I", end[-6:-2])[0]
    end[-6:-2] = struct.pack("<I", place + 7)
    x.write_bytes(whole[:at] + b"7 bytes" + end)
    assert codes(x) == {"A07"}


@settings(max_examples=300, suppress_health_check=[
    HealthCheck.function_scoped_fixture])  # fmt: skip
@given(at=st.integers(0, 10_000), byte=st.integers(1, 255), cut=st.booleans())
def test_any_changed_byte_is_found_or_harmless(x, at, byte, cut):
    whole = bytearray(zipped(x).read_bytes())
    at %= len(whole)
    if cut:
        del whole[at]
    else:
        whole[at] ^= byte
    x.write_bytes(whole)
    try:
        opened = open_archive(x)
    except L2benchError:
        return
    contents = {name: opened.read(name) for name in opened.names}
    opened.close()
    assert sorted(contents.values()) == sorted(FILES.values())  # times and attributes may differ
