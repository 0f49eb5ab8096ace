"""``l2bench doctor``: what this machine can run, and what to install for the rest."""

from __future__ import annotations

import ctypes.util
import os
import platform
import shutil
import subprocess
from typing import Any

import click

from l2bench import __version__
from l2bench.cli.main import print_json
from l2bench.cli.options import as_json
from l2bench.errors import L2benchError, guarded
from l2bench.plugins import KNOWN_PLUGINS, Registry, how_to_install, make_environment
from l2bench.records import RECORDED, installed
from l2bench.report.text import printable

GL_BACKENDS = {"egl": ("EGL", "libegl1"), "osmesa": ("OSMesa", "libosmesa6")}


@click.command()
@as_json
def doctor(as_json: bool) -> None:
    """Show Python, packages, plugins, simulators, GL backends and GPUs, with remedies."""
    report = examine()
    if as_json:
        print_json(report)
        return
    for section, rows in report.items():
        click.echo(f"{section}")
        for row in rows:
            mark = "ok     " if row["ok"] else "missing"
            remedy = f"  -> {row['remedy']}" if row.get("remedy") else ""
            click.echo(printable(f"  {mark}  {row['name']}  {row['found']}{remedy}"))


def examine() -> dict[str, list[dict[str, Any]]]:
    """Return everything found, section by section."""
    registry = Registry()
    return {
        "core": _core(),
        "plugins": _plugins(registry),
        "environments": _environments(registry),
        "rendering": _rendering(),
        "gpu": _gpus(),
    }


def _row(name: str, found: str, ok: bool = True, remedy: str | None = None) -> dict[str, Any]:
    return {"name": name, "found": found, "ok": ok, "remedy": remedy}


def _core() -> list[dict[str, Any]]:
    rows = [_row("l2bench", __version__), _row("python", platform.python_version())]
    rows.append(_row("cpus", str(os.cpu_count())))
    return rows + [_row(name, found) for name, found in installed(RECORDED).items()]


def _plugins(registry: Registry) -> list[dict[str, Any]]:
    rows = [
        _row(
            plugin.name,
            plugin.broken or f"{plugin.distribution} {plugin.version}",
            plugin.broken is None,
            f"reinstall or remove {plugin.distribution}" if plugin.broken else None,
        )
        for plugin in registry.plugins
    ]
    known = {plugin.name for plugin in registry.plugins}
    for name, package in KNOWN_PLUGINS.items():
        if name not in known:
            rows.append(_row(name, "not installed", False, how_to_install(package)))
    return rows


def _environments(registry: Registry) -> list[dict[str, Any]]:
    rows = []
    for name in sorted(registry.names("environments")):
        try:
            with guarded(f"environment '{name}'"):
                environment = make_environment(registry, name)
                environment.diagnose()
                versions = ", ".join(f"{k} {v}" for k, v in environment.versions().items())
            rows.append(_row(name, versions or "ready"))
        except L2benchError as error:
            rows.append(_row(name, "not usable", False, str(error)))
    return rows


def _rendering() -> list[dict[str, Any]]:
    rows = []
    for backend, (library, package) in GL_BACKENDS.items():
        found = ctypes.util.find_library(library)
        remedy = None if found else f"apt-get install {package}"
        rows.append(_row(backend, found or "library not found", bool(found), remedy))
    chosen = os.environ.get("MUJOCO_GL", "not set (chosen when pixels are asked for)")
    return [*rows, _row("MUJOCO_GL", chosen)]


def _gpus() -> list[dict[str, Any]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [_row("cuda", "no NVIDIA driver found; everything runs on the CPU", False)]
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return [_row("cuda", f"nvidia-smi failed: {error}", False, "check the NVIDIA driver")]
    return [_row(f"cuda:{at}", line) for at, line in enumerate(done.stdout.strip().splitlines())]
