"""What bundles can be written as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from l2bench.bundle.files import new_folder, write_atomically
from l2bench.bundle.reader import Bundle
from l2bench.errors import RunFailed, UsageError, choices, nearest
from l2bench.interop import l2logger_export, tabular
from l2bench.scoring import summarise_bundles

#: Exports and what they are.
EXPORTS = {
    "l2logger": "a folder of the logger l2logger, for l2metrics",
    "csv": "one line per run, task, block and metric",
    "markdown": "a table of the headline metrics",
    "latex": "a table of the headline metrics (package booktabs)",
}

#: The bundles at one path, and their scores.
Group = tuple[Sequence[Bundle], Sequence[Mapping[str, Any]]]


def check_export(kind: str, out: Path, *, force: bool) -> None:
    """Refuse an unknown kind of export, and to overwrite what is no such export.

    Raises:
        UsageError: with the remedy.
    """
    if kind not in EXPORTS:
        raise UsageError(f"unknown export '{kind}'{nearest(kind, EXPORTS)}; known: {_known()}")
    if not out.exists():
        return
    if not force:
        raise UsageError(f"{out} exists already; replace it with --force, or choose another -o")
    ours = _is_log(out) if kind == "l2logger" else out.is_file()
    if not ours:
        raise UsageError(f"{out} is no earlier export of this kind; choose another -o")


def export(kind: str, groups: Sequence[Group], out: Path) -> list[str]:
    """Write bundles in one of the forms and return warnings; see `check_export`.

    Raises:
        Unsupported: if there is nothing that could be written.
        UsageError: if bundles do not go together.
        RunFailed: if it cannot be written.
    """
    try:
        if kind == "l2logger":
            return _logs([bundle for bundles, _ in groups for bundle in bundles], out)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, _text(kind, groups).encode("utf-8", "replace"))
    except OSError as error:
        raise RunFailed(f"cannot write {out}: {error.strerror or error}") from error
    return []


def _text(kind: str, groups: Sequence[Group]) -> str:
    if kind == "csv":
        pairs = [(b, s) for bundles, scored in groups for b, s in zip(bundles, scored, strict=True)]
        return tabular.tidy([bundle for bundle, _ in pairs], [scores for _, scores in pairs])
    summaries = [summarise_bundles(bundles, scored) for bundles, scored in groups]
    return (tabular.markdown if kind == "markdown" else tabular.latex)(summaries)


def _logs(bundles: Sequence[Bundle], out: Path) -> list[str]:
    """Write one bundle as the log ``out``, several as logs inside it."""
    warnings: list[str] = []
    with new_folder(out) as inside:
        for bundle in bundles:
            folder = inside
            if len(bundles) > 1:
                folder = inside / bundle.folder.name.removesuffix(".l2b")
                folder.mkdir()
            warnings += l2logger_export.export(bundle, folder)
    return warnings


def _is_log(folder: Path) -> bool:
    if (folder / "logger_info.json").is_file():
        return True
    inside = list(folder.iterdir()) if folder.is_dir() else []
    return bool(inside) and all((child / "logger_info.json").is_file() for child in inside)


def _known() -> str:
    return choices(EXPORTS)
