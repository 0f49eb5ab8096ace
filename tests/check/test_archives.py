"""Archives that are refused before anything in them is read, each with its code."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from check.corpus import pack

from l2bench.bundle.reader import find_bundles
from l2bench.check.bundle import check_bundle


@pytest.fixture(scope="module")
def archive(sound, tmp_path_factory) -> Path:
    return pack(find_bundles(sound)[0], tmp_path_factory.mktemp("archive") / "sound.l2b.zip")


def found(path: Path) -> set[str]:
    checked = check_bundle(path, isolated=False)
    assert checked.exit_code == (1 if checked.findings else 0)
    return {finding.code for finding in checked.findings}


def with_entry(archive: Path, out: Path, name: str, data: bytes, **attributes) -> Path:
    """A copy of a sound archive with one more entry."""
    out.write_bytes(archive.read_bytes())
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o100644 << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    for key, value in attributes.items():
        setattr(info, key, value)
    with zipfile.ZipFile(out, "a") as file:
        file.writestr(info, data)
    return out


def test_a_sound_archive_has_no_findings(archive):
    assert check_bundle(archive).findings == ()


def test_an_archive_with_a_folder_around_its_files_is_accepted(sound, tmp_path):
    bundle = find_bundles(sound)[0]
    out = tmp_path / "wrapped.zip"
    with zipfile.ZipFile(out, "w") as file:
        for path in sorted(p for p in bundle.rglob("*") if p.is_file()):
            file.write(path, f"wrapped/{path.relative_to(bundle).as_posix()}")
    names = {len(Path(name).parts) for name in zipfile.ZipFile(out).namelist()}
    assert max(names) <= 5
    assert found(out) == set()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("../evil.json", "A02"),
        ("/etc/evil.json", "A02"),
        ("C:/evil.json", "A02"),
        ("x\\evil.json", "A02"),
        ("x/\x07evil.json", "A02"),
        ("x/" + "e" * 250 + ".json", "A02"),
        ("a/b/c/d/e/f.json", "A02"),
        ("e\u0301.json", "A02"),
        ("con.json", "A02"),
        ("manifest.json", "A04"),
        ("Manifest.JSON", "A04"),
        ("weights.pt", "A06"),
        ("policy.pkl", "A06"),
        ("run.sh", "A06"),
        ("lib.so", "A06"),
        ("arrays.npz", "A06"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_and_kinds(archive, tmp_path, name, code):
    assert code in found(with_entry(archive, tmp_path / "x.zip", name, b"{}"))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix", "A06"),
        (b"\x93NUMPY\x01\x00", "A06"),
        (b"\x89HDF\r\n\x1a\n", "A06"),
        (b"\x7fELF\x02", "A06"),
        (b"\x1f\x8b\x08\x00", "A07"),
    ],
)
def test_contents_that_are_not_what_their_name_says(archive, tmp_path, data, code):
    assert found(with_entry(archive, tmp_path / "x.zip", "notes.json", data)) == {code}


def test_a_nested_archive(archive, tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
    assert found(with_entry(archive, tmp_path / "x.zip", "x.json", inner.getvalue())) == {"A07"}


def test_a_link(archive, tmp_path):
    link = with_entry(archive, tmp_path / "x.zip", "x.json", b"/etc/passwd",
                      external_attr=0o120777 << 16, create_system=3)  # fmt: skip
    assert found(link) == {"A03"}


def test_a_bomb(archive, tmp_path):
    bomb = with_entry(archive, tmp_path / "x.zip", "x.json", b" " * (200 << 20))
    assert bomb.stat().st_size < 10_000_000
    assert found(bomb) == {"A05"}


def test_too_many_entries(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as file:
        for at in range(5000):
            file.writestr(f"{at}.json", "{}")
    assert found(path) == {"A05"}


def test_trailing_and_leading_data(archive, tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(archive.read_bytes() + b"more")
    assert found(path) == {"A07"}
    path.write_bytes(b"#!/bin/sh\n" + archive.read_bytes())
    assert found(path) == {"A07"}


def test_what_is_no_plain_zip(archive, tmp_path):
    path = tmp_path / "x.zip"
    data = archive.read_bytes()
    for content in (b"", b"hello", data[: len(data) // 2], b"PK\x05\x06" + b"\0" * 18):
        path.write_bytes(content)
        assert found(path) == {"A01"}, content[:20]


def test_an_encrypted_entry(archive, tmp_path):
    data = bytearray(archive.read_bytes())
    at = data.find(b"PK\x01\x02")
    (flags,) = struct.unpack_from("<H", data, at + 8)
    struct.pack_into("<H", data, at + 8, flags | 1)
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    assert "A01" in found(path)


def test_flipped_bytes_of_an_archive_are_found_or_change_nothing(archive, tmp_path):
    import random

    rng = random.Random(5)
    sound = archive.read_bytes()
    path = tmp_path / "x.zip"
    for _ in range(60):
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        checked = check_bundle(path, isolated=False)
        assert not {f.code for f in checked.findings} & {"I01"}
        assert checked.errors or same_content(path, archive)


def same_content(one: Path, other: Path) -> bool:
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        return {n: a.read(n) for n in a.namelist()} == {n: b.read(n) for n in b.namelist()}
