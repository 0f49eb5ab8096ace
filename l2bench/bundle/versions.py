"""Versions of the format: one major version is read for ever, a newer minor one as far as known."""

from __future__ import annotations

import copy
import re
from typing import Any

from pydantic import BaseModel, ValidationError

from l2bench.errors import Unsupported


def is_newer(version: object, ours: str, what: str) -> bool:
    """Return whether a version of a format is a newer minor one of our major version.

    Raises:
        Unsupported: if it is of another major version, or no version at all.
    """
    found = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", version) if isinstance(version, str) else None
    major, minor = (int(part) for part in ours.split("."))
    if found is None or int(found[1]) != major:
        later = found is not None and int(found[1]) > major
        remedy = "update l2bench to read it" if later else "no release of l2bench wrote it"
        raise Unsupported(
            f"{what} {version}; this l2bench reads {ours} and other {major}.x: {remedy}"
        )
    return int(found[2]) > minor


def known_part(model: type[BaseModel], data: dict[str, Any]) -> dict[str, Any]:
    """Return a document of a newer minor version without the keys that this one does not know."""
    known = copy.deepcopy(data)
    try:
        model.model_validate(known)
    except ValidationError as error:
        for fault in error.errors():
            if fault["type"] == "extra_forbidden":
                _remove(known, fault["loc"])
    return known


def _remove(data: Any, place: tuple[int | str, ...]) -> None:
    *path, last = place
    for step in path:
        data = data[step]
    del data[last]
