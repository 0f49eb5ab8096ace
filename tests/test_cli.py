"""The command line: exit codes, one clear line for every mistake, JSON, and no heavy imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

SUITES = ROOT / "suites"
SMOKE = (str(SUITES / "quickstart.yaml"), "profile=smoke")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    from l2bench.cli.main import invoke

    folder = tmp_path_factory.mktemp("finished") / "run"
    assert invoke(["run", *SMOKE, "-o", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["rnu"], 2, ["unknown command 'rnu'", "did you mean 'run'"]),
        (["run"], 2, ["Missing argument 'SUITE'"]),
        (["run", "quickstat"], 2, ["unknown suite 'quickstat'", "did you mean 'l2bench/quickstart'"]),
        (["run", "nowhere/quickstart.yaml"], 2, ["there is no suite file nowhere/quickstart.yaml"]),
        (["run", "quickstart", "--quick"], 2, ["No such option", "--quick"]),
        (["run", "quickstart", "profile=smok"], 2, ["unknown profile 'smok'", "'smoke'"]),
        (["run", "quickstart", "agent=tabluar"], 2, ["unknown agent", "'l2bench/tabular'"]),
        (["run", "quickstart", "agent=linear"], 2, ["learns from samples", "teaches by interaction"]),
        (["run", "quickstart", "scenario.episods=3"], 2, ["scenario.episods", "'episodes'"]),
        (["run", "quickstart", "scenario.episodes=many"], 2, ["scenario.episodes", "'many'"]),
        (["run", "quickstart", "scenario.episodes=0"], 2, ["scenario.episodes"]),
        (["run", "quickstart", "smoke"], 2, ["'smoke' is not an override", "key=value"]),
        (["run", "quickstart", "select=[ctch]"], 2, ["unknown task 'ctch'", "'catch'"]),
        (["run", "quickstart", "agent.settings.epsilom=1"], 2, ["epsilom", "'epsilon'"]),
        (["run", "quickstart", "execution.wokers=1"], 2, ["wokers", "'workers'"]),
        (["run", "quickstart", "a=[1"], 2, ["quickstart.yaml"]),
        (["run", "quickstart", "--resume"], 2, ["--resume needs the folder"]),
        (["run", "quickstart", "task_defaults.task=ctch", "tasks=[{id: a}]"], 2, ["has no task 'ctch'"]),
        (["run", "quickstart", "task_defaults.environment=nope/x"], 2, ["unknown environment 'nope/x'"]),
        (["score", "/nonexistent"], 2, ["/nonexistent does not exist"]),
        (["plan", "quickstart", "seeds=[1,1]"], 2, ["seeds must be unique"]),
        (["plan", "quickstart", "metrics=[l2bench/liberro]"], 2, ["'l2bench/libero'"]),
    ],
)  # fmt: skip
def test_mistakes_give_one_clear_line(cli, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    found, output, errors = cli(*arguments)
    assert found == code, errors
    assert output == ""
    assert errors.startswith("l2bench: ")
    assert errors.count("\n") == 1, errors
    assert "Traceback" not in errors
    for word in words:
        assert word in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"id: a\nid: b\n", 3, "duplicate key id in line 2"),
        (b"- a\n- b\n", 2, "no mapping"),
        (b"id: [\n", 3, "cannot be read as YAML"),
        (b"\xff\xfe\x00", 3, "cannot be read"),
        (b"", 2, "required but missing"),
        (b"id: ${nope}\ntitle: x\n", 2, "nope"),
        (b"id: !!python/object/apply:os.system ['true']\n", 3, "cannot be read as YAML"),
    ],
)
def test_odd_suite_files(cli, tmp_path, content, code, words):
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    found, _, errors = cli("plan", str(path))
    assert found == code, errors
    assert words in errors
    assert errors.count("\n") == 1


SMALL = """
id: small
version: "1"
title: Small
task_defaults:
  environment: l2bench/catch
  horizon: 200
  measure: catch_rate
  learning: {source: interaction, unit: steps, amount: 400, every: 200}
tasks: [{id: plain, task: catch}, {id: mirrored, task: mirrored_catch, horizon: 100}]
scenario: {kind: sequential, episodes: 2}
seeds: [0, 1]
agent: {name: l2bench/tabular}
profiles: {odd: {seeds: [2, 2]}, short: {scenario: {episodes: 1}}}
"""


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["experts=maybe", "title=x"], "override experts=maybe: 'experts': input should be"),
        (["++experts=maybe"], "override ++experts=maybe: 'experts'"),
        (
            ["tasks.1.horizon=-3", "select=[mirrored]"],
            "override tasks.1.horizon=-3: 'tasks.1.horizon'",
        ),
        (["agent.settngs=1", "agent=random"], "override agent.settngs=1: unknown key 'settngs'"),
        (["profile=short", "experts=maybe"], "override experts=maybe: 'experts'"),
        (["expert=true"], "override expert=true: unknown key 'expert' (did you mean 'experts'?)"),
        (["~scenario.kind"], "override ~scenario.kind: 'scenario.kind' is required"),
        (["scenario.kind=blocks"], "override scenario.kind=blocks: 'scenario': blocks belong to"),
        (["seeds=[1,1]", "agent=random"], "override seeds=[1,1]: 'it': seeds must be unique"),
        (["execution.worker=2"], "override execution.worker=2: unknown key 'worker'"),
        (["agent.settngs={}"], "override agent.settngs={}: unknown key 'settngs'"),
        (
            ["task_defaults.horizn=3"],
            "override task_defaults.horizn=3: unknown key 'task_defaults.",
        ),
        (["task_defaults.learning.every=3"], "every=3: 'task_defaults.learning': every (3) must"),
        (["tasks.1.horizn=3"], "override tasks.1.horizn=3: unknown key 'tasks.1.horizn'"),
        (["tasks.1.horizon=-3"], "override tasks.1.horizon=-3: 'tasks.1.horizon'"),
        (["profile=odd"], "small.yaml: 'it': seeds must be unique"),
        (["profile=odd", "title=x"], "small.yaml: 'it': seeds must be unique"),
    ],
)
def test_an_override_at_fault_is_named(cli, tmp_path, overrides, words):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    assert cli("plan", path)[0] == 0
    code, _, errors = cli("plan", path, *overrides)
    assert code == 2
    assert errors.startswith("l2bench: ")
    assert words in errors


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "measure: catch_rate",
            "measur: catch_rate",
            "small.yaml: unknown key 'task_defaults.measur'",
        ),
        ("amount: 400", "amount: no", "small.yaml: 'task_defaults.learning.amount': input"),
        ("horizon: 100", "horizon: no", "small.yaml: 'tasks.1.horizon': input"),
        ("agent: {name", "agent: {nam", "small.yaml, agent: 'name' is required but missing"),
    ],
)
def test_a_fault_of_the_file_is_named_where_it_stands(cli, tmp_path, old, new, words):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace(old, new))
    code, _, errors = cli("plan", path, "title=x")
    assert code == 2
    assert words in errors
    assert errors.count("'task_defaults.") <= 1


def test_configurations_of_agents_and_agents_are_told_apart(cli, tmp_path):
    suite = tmp_path / "mine.yaml"
    suite.write_text((SUITES / "quickstart.yaml").read_text())
    (tmp_path / "agent").mkdir()
    for name in ("careful_tabular", "bold_tabular", "something_else"):
        (tmp_path / "agent" / f"{name}.yaml").write_text("name: l2bench/tabular\n")

    def mistake(override):
        code, output, errors = cli("plan", suite, override)
        assert (code, output, errors.count("\n")) == (2, "", 1), errors
        return errors

    assert "write +agent=careful_tabular" in mistake("agent=careful_tabular")
    assert "the nearest are careful_tabular" in mistake("agent=carful_tabular")
    assert "the nearest are careful_tabular" in mistake("+agent=carful_tabular")
    assert "something_else" not in mistake("+agent=carful_tabular")
    assert "bold_tabular" in mistake("+agent=zzz")
    assert "goes without the plus: agent=random" in mistake("+agent=random")
    assert cli("plan", suite, "+agent=careful_tabular")[0] == 0


def test_the_plan_shows_the_agent_with_its_settings(cli):
    _, output, _ = cli("plan", "quickstart", "agent.settings.epsilon=0.25")
    lines = output.splitlines()
    at = lines.index("agent l2bench/tabular")
    assert lines[at + 1].split() == ["set", "epsilon=0.25"]
    assert lines[at + 2].split()[0] == "default"
    assert "discount=0.9" in lines[at + 2]
    _, output, _ = cli("plan", "quickstart", "agent.settings.epsilon=0.25", "--json")
    agent = json.loads(output)["agent"]
    assert agent["name"] == "l2bench/tabular"
    assert (agent["settings"]["epsilon"], agent["settings"]["discount"]) == (0.25, 0.9)
    assert agent["given"] == ["epsilon"]


def test_a_resolved_suite_is_a_suite_file_that_needs_an_agent(cli, finished, tmp_path):
    (resolved,) = finished.glob("*.l2b/suite.json")
    copy = tmp_path / "again.yaml"
    copy.write_bytes(resolved.read_bytes())
    code, _, errors = cli("plan", copy)
    assert code == 2
    assert "names no agent; add agent=NAME" in errors
    code, output, errors = cli("plan", copy, "agent=tabular", "--json")
    assert code == 0, errors
    (manifest,) = finished.glob("*.l2b/manifest.json")
    assert (
        json.loads(output)["suite"]["hash"]
        == json.loads(manifest.read_text())["suite"]["suite_hash"]
    )


def test_errors_are_json_too(cli):
    code, output, _ = cli("run", "quickstat", "--json")
    error = json.loads(output)["error"]
    assert code == error["exit_code"] == 2
    assert "did you mean" in error["message"]


def test_every_command_prints_one_json_document(cli, finished, tmp_path):
    folder = str(tmp_path / "run")
    for arguments in (
        ["plan", *SMOKE], ["run", *SMOKE, "--dry-run"], ["run", *SMOKE, "-o", folder],
        ["score", finished], ["report", finished], ["plugins"], ["suites"], ["doctor"],
        ["collect", *SMOKE],
    ):  # fmt: skip
        code, output, errors = cli(*arguments, "--json")
        assert code == 0, errors
        assert errors == ""
        assert isinstance(json.loads(output), dict)


def test_the_dry_run_counts_the_rows_of_the_real_run(cli, finished):
    _, output, _ = cli("run", *SMOKE, "--dry-run", "--json")
    planned = json.loads(output)
    (manifest,) = finished.glob("*.l2b/manifest.json")
    done = json.loads(manifest.read_text())
    assert planned["evaluation_episodes"] == done["tables"]["episodes"]["rows"]
    assert len(planned["blocks"]) == done["tables"]["blocks"]["rows"]
    assert planned["estimate"]["seconds"] > 0


def test_libero_long_is_the_full_protocol(cli):
    """100 learning segments and 3,300 evaluation episodes per seed; no simulator needed to plan."""
    code, output, errors = cli("plan", "libero_long", "--json")
    assert code == 0, errors
    planned = json.loads(output)
    assert planned["learning_segments"] == 100
    assert planned["evaluation_episodes"] == 3300
    assert planned["deviations"] == []
    lint = {f["metric"]: f for f in planned["metrics"] if f["task"] is None}
    assert lint["libero.NBT"]["identifiable"]
    assert not lint["l2m.forward_transfer_contrast"]["identifiable"]
    assert "before" in lint["l2m.forward_transfer_contrast"]["reason"]


def test_every_suite_of_the_house_loads_and_has_a_smoke_profile(cli):
    for path in sorted(SUITES.glob("*.yaml")):
        for profile in ([], ["profile=smoke"]):
            code, output, errors = cli("plan", str(path), *profile, "--json")
            assert code == 0, errors
            assert bool(json.loads(output)["deviations"]) == bool(profile)


def test_deviations_are_labelled(cli, finished):
    (manifest,) = finished.glob("*.l2b/manifest.json")
    suite = json.loads(manifest.read_text())["suite"]
    assert suite["division"] == "open"
    assert "scenario.episodes" in suite["deviations"]
    _, output, _ = cli("plan", "quickstart", "title=Other", "execution.workers=2", "--json")
    assert json.loads(output)["deviations"] == []


def test_scores_and_reports_say_in_what_the_suite_was_changed(cli, finished):
    for command in ("score", "report"):
        _, output, _ = cli(command, finished)
        first = output.splitlines()[0]
        assert first == "l2bench/tabular on quickstart 1.0 (changed: 4 keys), 1 lifetime"
        assert "\ndeviates from the suite in: scenario.episodes, tasks.*.learning.amount" in output


def test_scoring_anew_gives_the_stored_scores(cli, finished):
    _, output, _ = cli("score", finished, "--json")
    (stored,) = finished.glob("*.l2b/scores.json")
    (scored,) = json.loads(output)["bundles"]
    scored.pop("bundle")
    assert scored == json.loads(stored.read_text())


def test_the_report_is_one_file_and_the_same_every_time(cli, finished, tmp_path):
    page = finished / "report.html"
    first = page.read_bytes()
    code, output, errors = cli("report", finished)
    assert code == 0, errors
    assert str(page) in output
    assert page.read_bytes() == first
    other = tmp_path / "mine.html"
    assert cli("report", finished, "-o", other)[0] == 0
    code, _, errors = cli("report", finished, "-o", other)
    assert code == 2
    assert "--force" in errors
    assert cli("report", finished, "-o", other, "--force")[0] == 0


def test_the_default_folder_is_new_every_time(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        code, output, errors = cli("run", *SMOKE)
        assert code == 0, errors
        folder = Path(output.splitlines()[-1].split()[-1])
        assert folder.is_absolute()
        assert folder.parent == tmp_path / "runs"
    assert len(list((tmp_path / "runs").iterdir())) == 2


LIGHT = """
import sys
from l2bench.cli.main import invoke
invoke({arguments})
heavy = {{"torch", "gymnasium", "hydra", "pyarrow", "numpy", "mujoco", "pydantic", "rich"}}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    done = subprocess.run(
        [sys.executable, "-c", LIGHT.format(arguments=arguments)], capture_output=True, text=True
    )
    assert done.stderr == "[]\n"


def test_scoring_imports_neither_torch_nor_gymnasium_nor_a_simulator(finished):
    """INS-07: results are read and scored without the stacks that made them."""
    code = (
        "import sys; from l2bench.cli.main import invoke; "
        f"code = invoke(['score', {str(finished)!r}]); "
        "print(code, sorted({'torch', 'gymnasium', 'mujoco', 'hydra'} & set(sys.modules)), "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "0 []\n"


def test_import_asks_nothing_and_writes_nothing(tmp_path):
    """INS-03: standard input closed, the home folder read-only."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import l2bench, l2bench.plugins as p; p.Registry()"],
        env={"HOME": str(home), "PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(home.iterdir()) == []


def test_every_command_has_help_and_the_flags_have_one_name_each(cli):
    from l2bench.cli.main import COMMANDS
    from l2bench.cli.main import cli as group

    spelled: dict[str, str] = {}
    for name in COMMANDS:
        code, output, _ = cli(name, "--help")
        assert code == 0
        assert "Usage: l2bench" in output
        command = group.get_command(None, name)  # type: ignore[arg-type]
        for parameter in command.params:
            for flag in (opt for opt in parameter.opts if opt.startswith("--")):
                folded = flag.replace("-", "").rstrip("s")
                assert spelled.setdefault(folded, flag) == flag
