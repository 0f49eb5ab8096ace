"""A bundle as one file, NAME.l2b.zip: written the same every time, and read without trust.

Rules of reading, by code: A01 a plain zip, A02 its names, A03 regular files only, A04 no name
twice, A05 sizes, A06 kinds of files, A07 nothing hidden before, between or behind the entries, or
in them.
"""

from __future__ import annotations

import atexit
import codecs
import shutil
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from l2bench.bundle.files import new_file, new_folder
from l2bench.errors import RunFailed, Unsupported, UsageError

SUFFIX = ".l2b.zip"
KINDS = frozenset({".json", ".jsonl", ".parquet", ".sha256", ".md", ".mp4"})

MOST_ENTRIES = 2000  # a lifetime of 90 tasks with its experts has about 1,000
MOST_BYTES = 256 * 2**20
MOST_RATIO = 200
SMALL = 64 * 1024  # below this many bytes a ratio says nothing
LONGEST_NAME = 200
DEEPEST = 4  # folders

_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))]
)
_END, _LOCAL = b"PK\x05\x06", b"PK\x03\x04"
_NESTED = (
    _LOCAL,
    _END,
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"Rar!",
)
_CODE = {
    b"\x80\x02": "a pickle", b"\x80\x03": "a pickle", b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle", b"\x93NUMPY": "a numpy array", b"\x89HDF": "HDF5",
    b"\x7fELF": "a program",
}  # fmt: skip


class ArchiveFault(Unsupported):
    """One rule that an archive breaks: its ``code``, A01 to A07, and what is wrong.

    ``path`` is the entry's, "" where the fault is of the archive as a whole.
    """

    def __init__(self, code: str, path: str, message: str) -> None:
        super().__init__(f"{code}: {f'{path}: ' if path else ''}{message}")
        self.code = code
        self.path = path
        self.message = message


@dataclass
class Archive:
    """An archive without faults: the names of its files, and their contents one by one.

    Names are relative to the bundle's own root, whether or not the archive has it in a folder.
    """

    path: Path
    names: tuple[str, ...]
    _prefix: str = ""
    _zip: zipfile.ZipFile | None = field(default=None, repr=False)

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        assert self._zip is not None
        return self._zip.read(self._prefix + name)

    def close(self) -> None:
        """Close the file."""
        if self._zip is not None:
            self._zip.close()


def open_archive(path: Path) -> Archive:
    """Return an archive that breaks no rule.

    Raises:
        ArchiveFault: the first rule that is broken.
    """
    faults = inspect_archive(path)
    if faults:
        raise faults[0]
    archive = zipfile.ZipFile(path)
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    prefix = _wrapper(names)
    return Archive(path, tuple(sorted(n.removeprefix(prefix) for n in names)), prefix, archive)


def inspect_archive(path: Path) -> list[ArchiveFault]:
    """Return every rule that an archive breaks; nothing is written anywhere.

    The bytes read of each entry are limited by what it declares, and all of them by `MOST_BYTES`.
    """
    try:
        if not path.is_file() or path.is_symlink():
            return [ArchiveFault("A01", "", "not a regular file")]
        frame = _frame(path)
        if frame:
            return frame
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            faults = [*_sizes(entries), *_places(path, entries), *_twice(entries)]
            for info in entries:
                faults += [*_name(info), *_type(info)]
            if not any(fault.code in ("A01", "A05") for fault in faults):
                faults += [fault for info in entries for fault in _contents(archive, info)]
            return faults
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
        return [ArchiveFault("A01", "", f"not a readable zip file: {error}")]


def extract_archive(path: Path, folder: Path) -> None:
    """Write the files of an archive into a new folder, if it breaks no rule.

    Raises:
        ArchiveFault: the first rule that is broken; nothing is written then.
        UsageError: if the folder exists.
        RunFailed: if it cannot be written.
    """
    archive = open_archive(path)
    if folder.exists():
        raise UsageError(f"{folder} exists already; choose another folder")
    try:
        with new_folder(folder, replace=False, sync=False) as inside:
            for name in archive.names:
                target = inside.joinpath(*PurePosixPath(name).parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as file:
                    file.write(archive.read(name))
    except OSError as error:
        raise RunFailed(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        archive.close()


_UNPACKED: dict[tuple[str, int, int], Path] = {}


def unpacked(path: Path) -> Path:
    """Return a bundle's folder, unpacked from an archive into a temporary place once.

    The place is removed when the process ends.

    Raises:
        ArchiveFault: the first rule that the archive breaks.
    """
    status = path.stat()
    key = (str(path.resolve()), status.st_mtime_ns, status.st_size)
    if key not in _UNPACKED:
        place = Path(tempfile.mkdtemp(prefix="l2bench-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        folder = place / path.name.removesuffix(".zip")
        extract_archive(path, folder)
        _UNPACKED[key] = folder
    return _UNPACKED[key]


def write_archive(folder: Path, names: Sequence[str], out: Path) -> None:
    """Write files of a folder as an archive: sorted, without times, the same bytes every time.

    Raises:
        UsageError: if ``out`` exists.
        RunFailed: if it cannot be written.
    """
    if out.exists():
        raise UsageError(f"{out} exists already; choose another file")
    try:
        with new_file(out) as file, zipfile.ZipFile(file, "w") as archive:
            for name in sorted(names):
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.create_system, info.external_attr = 3, 0o100644 << 16
                packed = name.endswith(".mp4")
                info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                archive.writestr(info, (folder / name).read_bytes(), compresslevel=9)
    except OSError as error:
        raise RunFailed(f"cannot write {out}: {error.strerror or error}") from error


def _wrapper(names: Sequence[str]) -> str:
    """Return ``"NAME/"`` where everything lies in one folder that has the manifest, else ``""``."""
    first = {name.split("/", 1)[0] for name in names}
    if len(first) == 1 and "manifest.json" not in names:
        (only,) = first
        if f"{only}/manifest.json" in names:
            return f"{only}/"
    return ""


def _frame(path: Path) -> list[ArchiveFault]:
    """Check the record at the end: there, alone, of one disk, and the last thing in the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(max(0, size - 22 - 65_535))
        tail = file.read()
    if start == _END and size == 22:
        return [ArchiveFault("A01", "", "an empty zip file")]
    if start != _LOCAL:
        if _LOCAL in tail or _END in tail:
            return [ArchiveFault("A07", "", "something stands before the first entry")]
        return [ArchiveFault("A01", "", "not a zip file")]
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < 22:
        return [ArchiveFault("A01", "", "cut off: the record at the end of a zip file is missing")]
    disk, first, here, total, length, offset, comment = struct.unpack(
        "<4H2IH", tail[at + 4 : at + 22]
    )
    if disk or first or here != total:
        return [ArchiveFault("A01", "", "a part of an archive on several disks")]
    if 0xFFFF in (here, total) or 0xFFFFFFFF in (length, offset):
        return [ArchiveFault("A01", "", "in the format for sizes beyond 4 GiB")]
    if comment or at + 22 != len(tail):
        return [ArchiveFault("A07", "", "a comment or other data stands behind the last entry")]
    if offset + length + 22 != size:
        return [ArchiveFault("A07", "", "data stands between the entries and their list")]
    return []


def _sizes(entries: Sequence[zipfile.ZipInfo]) -> Iterator[ArchiveFault]:
    if len(entries) > MOST_ENTRIES:
        yield ArchiveFault("A05", "", f"{len(entries)} entries; at most {MOST_ENTRIES} are read")
    total = sum(info.file_size for info in entries)
    if total > MOST_BYTES:
        yield ArchiveFault("A05", "", f"{total} bytes unpacked; at most {MOST_BYTES} are read")
    for info in entries:
        if info.file_size > max(SMALL, MOST_RATIO * info.compress_size):
            ratio = info.file_size // max(1, info.compress_size)
            yield ArchiveFault("A05", info.filename, f"packed {ratio}:1; at most {MOST_RATIO}:1")


def _places(path: Path, entries: Sequence[zipfile.ZipInfo]) -> Iterator[ArchiveFault]:
    """Check that the entries fill the file up to their list, one after the other."""
    expected = 0
    with path.open("rb") as file:
        for info in sorted(entries, key=lambda info: info.header_offset):
            gap = info.header_offset - expected
            if gap < 0:
                yield ArchiveFault("A05", info.filename, "overlaps another entry")
            elif gap > 0:
                yield ArchiveFault("A07", info.filename, f"{gap} bytes before it belong to nothing")
            file.seek(info.header_offset + 26)
            name, extra = struct.unpack("<2H", file.read(4))
            expected = info.header_offset + 30 + name + extra + info.compress_size
            if info.flag_bits & 0x08:  # its size and checksum follow it
                file.seek(expected)
                expected += 16 if file.read(4) == b"PK\x07\x08" else 12
        file.seek(expected)
        if entries and file.read(4) != b"PK\x01\x02":
            yield ArchiveFault("A07", "", "data stands between the entries and their list")


def _twice(entries: Sequence[zipfile.ZipInfo]) -> Iterator[ArchiveFault]:
    files: set[str] = set()
    folders: set[str] = set()
    for info in entries:
        folded = unicodedata.normalize("NFC", info.filename).casefold().rstrip("/")
        if folded in files or (info.is_dir() and folded in folders):
            yield ArchiveFault("A04", info.filename, "is there twice, upper and lower case alike")
        (folders if info.is_dir() else files).add(folded)
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    for name in sorted(files & (folders | parents)):
        yield ArchiveFault("A04", name, "is a file and a folder")


def _name(info: zipfile.ZipInfo) -> Iterator[ArchiveFault]:
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    stems = {part.split(".")[0].casefold() for part in parts}
    wrong = {
        "is an absolute path": name.startswith("/") or name[1:2] == ":",
        "leads out of its folder": ".." in parts,
        "has an empty part or one that is a dot": not {"", "."}.isdisjoint(parts),
        "has a backslash, a colon or a control character": any(
            c in '\\:*?"<>|' or unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") for c in name
        ),
        "is not in Unicode's composed form": unicodedata.normalize("NFC", name) != name,
        f"is longer than {LONGEST_NAME} characters": len(name) > LONGEST_NAME,
        f"lies deeper than {DEEPEST} folders": len(parts) > DEEPEST + 1,
        "has a part that Windows reserves": not stems.isdisjoint(_RESERVED),
        "has a part that ends in a dot or a space": any(p[-1:] in (".", " ") for p in parts),
    }
    for text in [text for text, found in wrong.items() if found][:1]:
        yield ArchiveFault("A02", name[:LONGEST_NAME], f"the name {text}")


def _type(info: zipfile.ZipInfo) -> Iterator[ArchiveFault]:
    kind = info.external_attr >> 16 & 0o170000
    if kind not in (0, 0o040000 if info.is_dir() else 0o100000):
        yield ArchiveFault("A03", info.filename, "is a link or another special file")
    if info.flag_bits & 0x41:
        yield ArchiveFault("A01", info.filename, "is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield ArchiveFault("A01", info.filename, "is packed in another way than stored or deflated")
    suffix = PurePosixPath(info.filename).suffix
    if info.is_dir():
        if info.file_size:
            yield ArchiveFault("A07", info.filename, "is a folder with contents")
    elif suffix not in KINDS:
        allowed = " ".join(sorted(KINDS))
        yield ArchiveFault("A06", info.filename, f"is of a kind that no bundle holds ({allowed})")


def _contents(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[ArchiveFault]:
    """Check that an entry's bytes are sound and of the kind that its name says.

    No more are unpacked than the entry declares; were there more, their checksum would be wrong.
    """
    if info.is_dir():
        return
    head, tail, text = b"", b"", True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with archive.open(info) as file:
            while chunk := file.read(1 << 18):
                head, tail = (head or chunk[:512]), (tail + chunk)[-8:]
                text = text and _is_text(decoder, chunk)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        yield ArchiveFault("A01", info.filename, f"is damaged: {error}")
        return
    yield from _sniff(info.filename, head, tail, text)


def _sniff(name: str, head: bytes, tail: bytes, text: bool) -> Iterator[ArchiveFault]:
    if head.startswith(_NESTED) or head[257:262] == b"ustar":
        yield ArchiveFault("A07", name, "is an archive inside the archive")
        return
    code = next((what for magic, what in _CODE.items() if head.startswith(magic)), None)
    suffix = PurePosixPath(name).suffix
    if code is None and suffix == ".parquet" and not (head[:4] == tail[-4:] == b"PAR1"):
        code = "no Parquet file"
    if code is None and suffix == ".mp4" and head[4:8] != b"ftyp":
        code = "no MP4 file"
    if code is None and suffix in (".json", ".jsonl", ".sha256", ".md") and not text:
        code = "no UTF-8 text"
    if code:
        yield ArchiveFault("A06", name, f"is {code}")


def _is_text(decoder: codecs.IncrementalDecoder, chunk: bytes) -> bool:
    try:
        return "\0" not in decoder.decode(chunk)
    except UnicodeDecodeError:
        return False
