"""Report pages of every kind that a reader may meet, written to disk."""

from __future__ import annotations

from pathlib import Path

from support import ROOT

from l2bench.cli.main import invoke
from l2bench.report.page import render

LAYOUT = ROOT / "tests" / "oracle" / "l2m" / "example" / "l2logger_layout"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "</style></title></pre><b>",
    "</script><script>alert(1)</script>",
    "{{ 7 * 7 }}{% raw %}",
    "abc\u202egnp.\u2066exe\u0000\x1b[31m\ud800",
    "x" * 10_000,
)

KINDS = (
    "quickstart",
    "l2logger import",
    "aggregate import",
    "nothing measured",
    "hostile names",
    "one task",
    "different orders",
    "three lifetimes",
    "ten tasks",
    "ninety tasks",
)


def write(kind: str, make, folder: Path) -> Path:
    """Write the page of a kind into a folder and return its path."""
    page = folder / f"{kind.replace(' ', '-')}.html"
    source = _source(kind, folder)
    if source:
        assert invoke(["report", *map(str, source), "-o", str(page)]) == 0
        return page
    page.write_text(_rendered(kind, make), encoding="utf-8")
    return page


def _source(kind: str, folder: Path) -> list[Path | str]:
    """Return what to call the command with, for reports of what was really run or imported."""
    if kind == "quickstart":
        runs, data = folder / "runs", f"execution.data={folder / 'data'}"
        seeds = "execution.seeds=[0,1,2,3,4]"
        command = ["run", "quickstart", "profile=smoke", seeds, data, "-o", str(runs)]
        assert invoke(command) == 0
        return [runs]
    if kind == "l2logger import":
        experts = [
            part for p in sorted((LAYOUT / "ste_logs").iterdir()) for part in ("--expert", p)
        ]
        return [LAYOUT / "ll_logs" / "multi_task", *experts]
    if kind == "aggregate import":
        return [ROOT / "tests" / "interop" / "data" / "libero"]
    return []


def _rendered(kind: str, make) -> str:
    if kind == "nothing measured":
        return make.empty_page()
    if kind == "hostile names":
        return hostile_page(make)
    if kind == "one task":
        return make.page(make.suite(1, 1))
    if kind == "different orders":
        return make.page(make.suite(4, 5, order="shuffled"))
    if kind == "three lifetimes":
        suite = make.suite(2, 5, evaluate="all", pretest=True)
        what = {"discarded": 1, "division": "open", "deviations": ("scenario.episodes",)}
        return make.page(suite, seeds=[0, 2, 4], **what)
    if kind == "ten tasks":
        return make.page(make.suite(10, 5), warnings=["mujoco 3.4 changes one task of this suite"])
    bundles = make.bundles(make.suite(90, 1, keep="last", evaluate="seen", episodes=1))
    return render(bundles, make.summary(bundles, pairs=False))


def hostile_page(make) -> str:
    """Return a page in which every name that a stranger may choose is hostile."""
    names = [text.encode("utf-8", "ignore").decode() for text in HOSTILE]
    suite = make.suite(len(names), 2)
    ids = {
        task.id: f"{at}{name}"[:2000]
        for at, (task, name) in enumerate(zip(suite.tasks, names, strict=True))
    }
    tasks = tuple(task.model_copy(update={"id": ids[task.id]}) for task in suite.tasks)
    suite = suite.model_copy(
        update={"tasks": tasks, "title": names[1], "description": names[4], "version": names[0]}
    )
    settings = {name[:50]: name for name in names}
    bundles = make.bundles(
        suite, suite_hash="sha256:" + "f" * 64, agent=names[1], warnings=names, settings=settings
    )
    return render(bundles, make.summary(bundles))
