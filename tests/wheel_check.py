"""Compare the installed wheel with the source tree: every module imports, every file is there."""

import importlib
import sys
from pathlib import Path

root = Path(sys.argv[1])
import l2bench.plugins  # noqa: E402

installed = Path(l2bench.__file__).parent
assert root not in installed.parents, f"imported from the source tree: {installed}"
missing = []
for source in sorted((root / "l2bench").rglob("*")):
    if source.is_dir() or "__pycache__" in source.parts:
        continue
    name = source.relative_to(root / "l2bench")
    if not (installed / name).is_file():
        missing.append(str(name))
    elif source.suffix == ".py":
        module = ".".join(("l2bench", *name.with_suffix("").parts)).removesuffix(".__init__")
        importlib.import_module(module)
for package in (root / "plugins").glob("*/l2bench_*"):
    for source in package.rglob("*"):
        name = source.relative_to(package.parent)
        if source.is_file() and "__pycache__" not in name.parts:
            missing += [] if (installed.parent / name).is_file() else [str(name)]
missing += [
    f"suites/{suite.name}"
    for suite in (root / "suites").glob("*.yaml")
    if not (installed / "suites" / suite.name).is_file()
]
assert not missing, f"not in the wheel: {missing}"
listed = {plugin.name: plugin.broken for plugin in l2bench.plugins.Registry().plugins}
assert listed == {"agents": None, "l2bench": None, "libero": None}, listed
assert "torch" not in sys.modules, "the core imports torch"
assert "mujoco" not in sys.modules, "the core imports a simulator"
sys.stdout.write(f"wheel complete: {installed}\n")
