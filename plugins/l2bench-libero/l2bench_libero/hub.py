"""The Hugging Face hub over plain HTTP: what a dataset holds, and its files, resumed and verified.

Standard library alone: the hub's own client does not go on with a file in a second run, and a file
here is a gigabyte. ``HF_ENDPOINT`` names a mirror, ``HF_TOKEN`` is sent to the hub itself only.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from l2bench.bundle.hashing import file_hash
from l2bench.errors import RunFailed, Unsupported

HUB = "https://huggingface.co"
TIMEOUT = 60.0
CHUNK = 1 << 20
#: Attempts in a row that brought nothing new before giving up, and the first pause (s).
ATTEMPTS, PAUSE = 4, 1.0
#: Answers that may be another a moment later.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_FAULTS = (urllib.error.URLError, http.client.HTTPException, OSError)

#: Called with (bytes there, bytes in all).
Moved = Callable[[int, int], None]


@dataclass(frozen=True)
class Entry:
    """One file as published: its path in the repository, its size in bytes and its digest."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file alone."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Hub:
    """A dataset repository at one revision."""

    repository: str
    revision: str = "main"
    pause: float = PAUSE
    endpoint: str = field(
        default_factory=lambda: (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    )

    def pinned(self) -> Hub:
        """Return the repository at the commit that the revision stands for now."""
        found = self._json(f"revision/{urllib.parse.quote(self.revision, safe='')}")
        commit = found.get("sha") if isinstance(found, dict) else None
        if not (isinstance(commit, str) and re.fullmatch(r"[0-9a-f]{40}", commit)):
            raise RunFailed(f"{self._where('the revision')}: the server named no commit")
        return Hub(self.repository, commit, self.pause, self.endpoint)

    def listing(self, folder: str) -> dict[str, Entry]:
        """Return the large files in a folder of the repository by path."""
        listed = self._json(f"tree/{self.revision}/{folder}")
        result = {}
        try:
            for item in listed:
                record = item.get("lfs")
                if item["type"] == "file" and record:
                    sha256 = str(record["oid"]).removeprefix("sha256:")
                    result[item["path"]] = Entry(item["path"], int(record["size"]), sha256)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise RunFailed(f"{self._where(folder)}: not a listing ({error!r})") from error
        return result

    def download(self, entry: Entry, place: Path, moved: Moved) -> None:
        """Bring a file to its place, going on where an earlier attempt broke off.

        Raises:
            RunFailed: the transfer broke, or what came is not what was published.
            Unsupported: the file is not there, or cannot be written.
        """
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.{entry.sha256[:12]}.part")
        with part.open("ab") as stream:
            _lock(stream, place)
            self._fill(entry, stream, moved)
            stream.flush()
            os.fsync(stream.fileno())
        found = file_hash(part)
        if found != entry.sha256:
            part.unlink()
            raise RunFailed(
                f"{self._where(entry.path)}: sha256: expected {entry.sha256}, found {found}; the "
                "download was deleted, run again"
            )
        part.replace(place)

    def _fill(self, entry: Entry, stream: IO[bytes], moved: Moved) -> None:
        """Append until the file has its size; give up after attempts that bring nothing."""
        tried, last = 0, "the connection ended early"
        while stream.tell() < entry.size:
            before = stream.tell()
            try:
                self._append(entry, stream, moved)
            except urllib.error.HTTPError as error:
                if error.code == 416:  # what is there fits no file there
                    stream.truncate(0)
                elif error.code not in _PASSING:
                    raise self._refused(entry.path, error) from error
                last = f"the server answered {error.code}"
            except _FAULTS as error:
                _refuse_local(error, stream)
                last = _words(error)
            tried = 0 if stream.tell() > before else tried + 1
            if tried >= ATTEMPTS:
                raise RunFailed(
                    f"{self._where(entry.path)}: {last} at {stream.tell()} of {entry.size} bytes; "
                    "run again to go on there"
                )
            if stream.tell() < entry.size:
                time.sleep(self.pause * 2**tried)
        if stream.tell() > entry.size:
            found = stream.tell()
            stream.truncate(0)
            raise RunFailed(
                f"{self._where(entry.path)}: size: expected {entry.size} bytes, found {found}; the "
                "download was deleted, run again"
            )

    def _append(self, entry: Entry, stream: IO[bytes], moved: Moved) -> None:
        """Append what one answer brings."""
        start = stream.tell()
        path = urllib.parse.quote(entry.path)
        address = f"{self.endpoint}/datasets/{self.repository}/resolve/{self.revision}/{path}"
        with self._open(address, {"Range": f"bytes={start}-"} if start else {}) as answer:
            covered = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")
            if start and not (answer.status == 206 and covered and int(covered[1]) == start):
                stream.truncate(0)  # the server begins at the beginning
            while stream.tell() <= entry.size and (block := answer.read(CHUNK)):
                stream.write(block)
                moved(stream.tell(), entry.size)

    def _json(self, route: str) -> Any:
        """Return what the hub's interface answers.

        Raises:
            Unsupported: there is no such repository, revision or folder, or no access.
            RunFailed: no answer, or none that can be read.
        """
        address = f"{self.endpoint}/api/datasets/{self.repository}/{route}"
        tried = 0
        while True:
            try:
                with self._open(address, {}) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as error:
                tried += 1
                if error.code not in _PASSING or tried >= ATTEMPTS:
                    raise self._refused(route, error) from error
            except (*_FAULTS, ValueError) as error:
                raise RunFailed(f"{self._where(route)}: {_words(error)}") from error
            time.sleep(self.pause * 2**tried)

    def _open(self, address: str, headers: dict[str, str]) -> Any:
        agent = {"User-Agent": "l2bench-libero", "Accept-Encoding": "identity"}
        request = urllib.request.Request(address, headers=agent | headers)
        if token := os.environ.get("HF_TOKEN"):
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        return urllib.request.urlopen(request, timeout=TIMEOUT)

    def _where(self, what: str) -> str:
        return f"{what} of {self.repository} at {self.endpoint}"

    def _refused(self, what: str, error: urllib.error.HTTPError) -> Exception:
        text = f"{self._where(what)}: the server answered {error.code}"
        error.close()
        if error.code in (401, 403, 404):
            return Unsupported(f"{text}; the name, the revision or access to it is wrong")
        return RunFailed(f"{text}; run again later to go on")


def _lock(stream: IO[bytes], place: Path) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFailed(f"another process is fetching {place}; let it finish") from None
    except OSError:
        return  # a file system without locks


def _refuse_local(error: BaseException, stream: IO[bytes]) -> None:
    """Tell a full or read-only disk from a broken connection."""
    if isinstance(error, OSError) and error.errno is not None and not _is_network(error):
        raise Unsupported(f"{stream.name} cannot be written: {error.strerror}") from error


def _is_network(error: OSError) -> bool:
    kinds = (urllib.error.URLError, ConnectionError, TimeoutError)
    return isinstance(error, kinds)


def _words(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    text = " ".join(str(reason).split()) or type(error).__name__
    return f"{text:.200}"
