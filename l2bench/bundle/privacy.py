"""What is personal stays out of bundles: secrets, paths, the names of users and machines."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

REDACTED = "[redacted]"

#: Keys whose texts are secrets, by how they end; an ``observation_key`` or a ``tokenizer`` is none.
SECRET = re.compile(
    r"(?:tokens?|secrets?|passw\w*|credentials?"
    r"|(?:^|\.)keys?|(?:api|access|private|auth|ssh|secret|signing)[_-]?keys?)(?:$|\.)",
    re.IGNORECASE,
)

_FILE = re.compile(r'File "[^"]*?([^"/\\]+[/\\][^"/\\]+)"')
_PATH = re.compile(
    r"(?<![\w.:/~])(?:~|[A-Za-z]:)?[/\\](?:[^\s/\\'\",;:()<>]+[/\\])+([^\s/\\'\",;:()<>]*)"
)
A_PATH = "a path of a machine"
_PATTERNS = {
    A_PATH: re.compile(rf"^(?:~|[A-Za-z]:)?[/\\]|{_PATH.pattern}"),
    "an e-mail address": re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b"),
    "an address with a password": re.compile(r"\b\w+://[^/\s:@]+:[^/\s@]+@"),
    "an address of a machine": re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"),
}


class Personal(NamedTuple):
    """A field of a document that looks personal: where it is, why, and its text."""

    place: str
    why: str
    text: str


def redacted(data: Any, key: str = "") -> Any:
    """Return plain data with secret texts replaced, and paths cut down to their last part.

    A secret is a text whose key ends in token, secret, password, credential, or a key of an
    interface (``api_key``); numbers and switches under such keys stay.
    """
    if isinstance(data, Mapping):
        return {name: redacted(each, f"{key}.{name}") for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [redacted(each, key) for each in data]
    if not isinstance(data, str) or not data:
        return data
    if SECRET.search(key):
        return REDACTED
    return data.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1] if _is_path(data) else data


def anonymous(text: str) -> str:
    """Return a message or traceback whose files are named without the folders of this machine."""
    text = _FILE.sub(r'File "\1"', text)
    text = _PATH.sub(r"\1", text)
    for name in _names():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[name]", text)
    return text


def scrubbed(data: Any) -> Any:
    """Return plain data without what looks personal: tracebacks, names, paths, addresses."""
    if isinstance(data, Mapping):
        return {
            key: REDACTED if key in ("traceback", "author") else scrubbed(each)
            for key, each in redacted(data).items()
        }
    if isinstance(data, list | tuple):
        return [scrubbed(each) for each in data]
    if not isinstance(data, str):
        return data
    for why, pattern in _PATTERNS.items():
        if why != A_PATH:
            data = pattern.sub(REDACTED, data)
    return anonymous(data)


def personal(data: Any, place: str = "") -> Iterator[Personal]:
    """Yield the fields of plain data that look personal."""
    if isinstance(data, Mapping):
        for name, each in data.items():
            yield from personal(each, f"{place}.{name}" if place else str(name))
    elif isinstance(data, list | tuple):
        for at, each in enumerate(data):
            yield from personal(each, f"{place}[{at}]")
    elif isinstance(data, str) and data and data != REDACTED:
        if SECRET.search(place):
            yield Personal(place, "may be a secret", data)
        for why, pattern in _PATTERNS.items():
            if pattern.search(data):
                yield Personal(place, why, data)
        for name in _names():
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", data):
                yield Personal(place, "names this user or machine", data)


def _is_path(text: str) -> bool:
    return bool(re.match(r"(?:~[\w.-]*|[A-Za-z]:)?[/\\]", text)) and "\n" not in text


def _names() -> list[str]:
    """Return the names of user and machine that are telling: not root, not localhost."""
    found = set()
    with suppress(OSError, KeyError):
        found.add(getpass.getuser())
    with suppress(OSError):
        found.add(socket.gethostname())
    found.add(Path.home().name)
    common = {"", "root", "localhost", "user", "home", "runner", "admin", "l2bench", "agent"}
    return sorted(name for name in found if name not in common and len(name) > 2)
