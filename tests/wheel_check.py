"""Compare the installed wheel with the source tree: every module imports, every file is there."""

import importlib
import sys
from pathlib import Path

root = Path(sys.argv[1])
import l2bench  # noqa: E402

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
missing += [
    f"suites/{suite.name}"
    for suite in (root / "suites").glob("*.yaml")
    if not (installed / "suites" / suite.name).is_file()
]
assert not missing, f"not in the wheel: {missing}"
assert "torch" not in sys.modules, "the core imports torch"
assert "mujoco" not in sys.modules, "the core imports a simulator"
sys.stdout.write(f"wheel complete: {installed}\n")
