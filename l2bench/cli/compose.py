"""From a suite's name or file and overrides to checked models: Hydra composes, pydantic judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from l2bench.cast import AgentSpec, Execution
from l2bench.deviations import differences
from l2bench.errors import L2benchError, Unsupported, UsageError, choices, nearest
from l2bench.plugins import Registry
from l2bench.suite import Place, Suite, Written, judge

LARGEST, MOST_ALIASES = 1_000_000, 100

#: Keys of a suite file that are not part of the suite itself.
BESIDE = ("agent", "execution", "profiles", "task_defaults", "select")


@dataclass(frozen=True)
class Composed:
    """A suite ready to run: the models, and how it deviates from the file as it stands."""

    suite: Suite
    agent: AgentSpec
    execution: Execution
    deviations: tuple[str, ...]


@dataclass(frozen=True)
class _Given:
    """A suite's file and the overrides, for errors that name the one that is at fault."""

    file: str
    overrides: tuple[str, ...] = ()

    def holder(self, place: Place) -> str:
        """Return the override that set what is at a place, else the file.

        The file is valid as it stands. So where the parts of a section do not go together, the
        only override in it is at fault, unless there is a profile.
        """
        path = ".".join(map(str, place))
        keys = {
            text.lstrip("+~").partition("=")[0].partition("@")[0]: text for text in self.overrides
        }
        around = [keys[key] for key in sorted(keys, key=len) if f"{path}.".startswith(f"{key}.")]
        inside = [keys[key] for key in keys if key.startswith(f"{path}.")]
        if not place:  # the suite as a whole
            inside = [keys[key] for key in keys if key.split(".")[0] not in ("agent", "execution")]
        if around or (len(inside) == 1 and "profile" not in keys):
            return f"override {(around or inside)[-1]:.100}"
        return self.file

    def below(self, section: str) -> Written:
        """Return what `judge` needs to know of a section of the file."""

        def written(place: Place) -> tuple[str, Place]:
            holder = self.holder((section, *place))
            return (f"{holder}, {section}" if holder == self.file else holder), place

        return written


def compose(registry: Registry, named: str, overrides: Sequence[str]) -> Composed:
    """Return the suite of this name or file with the overrides applied.

    ``profile=NAME`` applies one of the file's profiles first; ``agent=NAME`` picks an agent with
    its default settings, ``+agent=NAME`` a configuration that a plugin brings; every other override
    is ``dotted.key=value`` in Hydra's grammar.

    Raises:
        UsageError: unknown suite, profile or key, or a value that does not fit.
        Unsupported: a file that cannot be read.
    """
    path = find(registry, named)
    alone = _Given(path.name)
    base, settings = _suite(_hydra(registry, path, None, []), path, alone)
    _beside(settings, alone)
    for override in overrides:
        if override.startswith("agent="):
            _refuse_configuration(registry, path, override.removeprefix("agent="))
    profile, rest = _profile(overrides)
    given = _Given(path.name, tuple(overrides))
    suite, beside = _suite(_hydra(registry, path, profile, rest), path, given)
    registry.refuse_repeats("metric_sets", suite.metrics)
    if not beside["agent"]:
        raise UsageError(f"{path.name} names no agent; add agent=NAME (see 'l2bench plugins')")
    agent, execution = _beside(beside, given)
    return Composed(suite, agent, execution, differences(base, suite))


def find(registry: Registry, named: str) -> Path:
    """Return the file of a suite: a path ending in .yaml, or a registered name."""
    if named.lower().endswith((".yaml", ".yml")):
        path = Path(named)
        if path.is_dir() or (path.is_file() and path.suffix != ".yaml"):
            raise UsageError(
                f"{named} is not a suite file; a suite is a file whose name ends in .yaml"
            )
        if not path.is_file():
            siblings = [str(p) for p in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
            raise UsageError(
                f"there is no suite file {named}{nearest(named, siblings)}; "
                f"'l2bench suites' lists the suites that come by name"
            )
        return path.absolute()
    return Path(registry.resolve("suites", named))


def _profile(overrides: Sequence[str]) -> tuple[str | None, list[str]]:
    profile, rest = None, []
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "profile" and value:
            profile = value
        elif key == "agent" and value:
            # a mapping would be merged into the file's settings; null takes their place
            rest += [f"++agent.name={value}", "++agent.settings=null", "++agent.settings={}"]
        elif not value and key in ("profile", "agent"):
            raise UsageError(f"'{override}' names no {key}; write {key}=NAME")
        elif "=" not in override and not override.startswith("~"):
            raise UsageError(
                f"'{override}' is not an override; write key=value, such as agent=random"
            )
        else:
            rest.append(override if override[0] in "+~" else f"++{override}")
    return profile, rest


def _refuse_configuration(registry: Registry, path: Path, agent: str) -> None:
    """Point to ``+agent=NAME`` where a configuration's name is given as if it were an agent's."""
    try:
        registry.qualify("agents", agent)
    except Unsupported:
        return  # a plan does without
    except UsageError as error:
        folders = [path.parent, *_config_folders(registry)]
        known = {file.stem for folder in folders for file in (folder / "agent").glob("*.yaml")}
        if agent in known:
            raise UsageError(
                f"'{agent}' is the configuration of an agent; write +agent={agent}"
            ) from None
        if close := _close(agent, known):
            raise UsageError(
                f"{error}; of configurations, which +agent=NAME takes, the nearest are {close}"
            ) from None


def _close(asked: str, known: Iterable[str]) -> str:
    """Return the names that are most like the one asked for, the nearest first."""
    return ", ".join(get_close_matches(asked, sorted(set(known)), n=3))


def _missing(registry: Registry, path: Path, wanted: str, known: Sequence[str]) -> UsageError:
    """Return the error for an option of a group, such as agent/NAME, that is not there."""
    group, _, name = wanted.partition("/")
    agents = {part for agent in registry.names("agents") for part in (agent, agent.split("/")[1])}
    if group == "agent" and name in agents:
        hint = f"an agent without its configuration goes without the plus: agent={name}"
    elif close := _close(name, known):
        hint = f"the nearest are {close}"
    else:
        hint = f"known: {choices(known, 30)}"
    return UsageError(f"{path.name}: no configuration of '{group}' is called '{name}'; {hint}")


def _hydra(
    registry: Registry, path: Path, profile: str | None, overrides: list[str]
) -> dict[str, Any]:
    """Compose the file, the profile and the overrides, in this order."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException, MissingConfigException
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    _refuse_bombs(path)
    OmegaConf.clear_resolver("oc.env")  # a suite must not record the environment
    try:
        raw = OmegaConf.load(path)
        if not isinstance(raw, DictConfig):
            raise UsageError(f"{path} holds no mapping of keys to values; it is not a suite")
        profiles = raw.get("profiles") or {}
        if not isinstance(profiles, Mapping) or not all(
            isinstance(patch, Mapping) for patch in profiles.values()
        ):
            raise UsageError(f"{path.name}: profiles must map each name to the keys it sets")
        profiles = {str(name): patch for name, patch in profiles.items()}
        composing = list(overrides)
        if profile is not None:
            if profile not in profiles:
                raise UsageError(
                    f"unknown profile '{profile}'{nearest(profile, profiles)}; "
                    f"{path.name} has {choices(profiles)}"
                )
            ConfigStore.instance().store(
                group="profile", name=profile, node=profiles[profile], package="_global_"
            )
            composing.insert(0, f"+profile={profile}")
        paths = [f"file://{p}" for p in _config_folders(registry)]
        if paths:
            composing.append(f"hydra.searchpath=[{','.join(paths)}]")
        with initialize_config_dir(str(path.parent), version_base="1.3"):
            config = hydra_compose(path.stem, overrides=composing)
        data = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except (HydraException, OmegaConfBaseException) as error:
        if isinstance(error, MissingConfigException) and "/" in (error.missing_cfg_file or ""):
            known = error.options or ()
            raise _missing(registry, path, error.missing_cfg_file or "", known) from None
        raise UsageError(f"{path.name}: {_first_line(error)}") from None
    except (OSError, YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Unsupported(f"{path} cannot be read as YAML: {_first_line(error)}") from None
    except L2benchError:
        raise
    except Exception as error:  # what Hydra makes of an odd file or override
        raise UsageError(f"{path.name} cannot be composed: {_first_line(error)}") from None
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items()}


def _refuse_bombs(path: Path) -> None:
    """Refuse files that are small to write and endless to read."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        if len(text) > LARGEST:
            raise Unsupported(f"{path} holds more than {LARGEST:,} characters; a suite is smaller")
        aliases = sum(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise Unsupported(f"{path} cannot be read as YAML: {_first_line(error)}") from None
    if aliases > MOST_ALIASES:
        raise Unsupported(f"{path} holds {aliases} YAML aliases; {MOST_ALIASES} are allowed")


def _config_folders(registry: Registry) -> list[Path]:
    found = [Path(registry.resolve("configs", name)) for name in sorted(registry.names("configs"))]
    return [path for path in found if path.is_dir()]


def _first_line(error: BaseException) -> str:
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if problem and mark:
        return f"{problem} in line {mark.line + 1}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[:2])[:300] or type(error).__name__


def _suite(data: dict[str, Any], path: Path, given: _Given) -> tuple[Suite, dict[str, Any]]:
    """Return the suite in composed data, and the keys beside it."""
    beside = {key: data.pop(key, None) for key in BESIDE}
    defaults = beside["task_defaults"] or {}
    tasks = data.get("tasks")
    listed: list[Any] = tasks if isinstance(tasks, list) else []
    own = listed
    if isinstance(tasks, list):
        if beside["select"] is not None:
            own = _selected(listed, beside["select"], path)
        tasks = [_merged(defaults, task) for task in own]
    known = [*Suite.model_fields, *BESIDE, "profile"]
    for key in data:
        if key not in known:
            raise UsageError(
                f"{given.holder((key,))}: unknown key '{key}'{nearest(key, known)}; "
                f"known: {choices(known, 20)}"
            )

    def written(place: Place) -> tuple[str, Place]:
        inside = place[2:]
        if place[:1] == ("tasks",) and inside and isinstance(at := place[1], int):
            if not _holds(own, place[1:]) and _holds(defaults, inside):
                place = "task_defaults", *inside
            else:  # as the file counts them, whatever was selected
                number = next(n for n, task in enumerate(listed) if task is own[at])
                place = "tasks", number, *inside
        return given.holder(place), place

    return judge(Suite, {**data, "tasks": tasks}, written), beside


def _beside(found: Mapping[str, Any], given: _Given) -> tuple[AgentSpec, Execution]:
    """Return agent and execution; a suite may leave the agent to whoever runs it."""
    agent = judge(AgentSpec, found["agent"] or {"name": ""}, given.below("agent"))
    execution = judge(Execution, found["execution"] or {}, given.below("execution"))
    return agent, execution


def _holds(data: Any, place: Place) -> bool:
    """Return whether nested data have something at a place."""
    try:
        for part in place:
            data = data[part]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _merged(defaults: Any, task: Any) -> Any:
    """Return a task with the defaults filled in, section by section."""
    if not (isinstance(defaults, Mapping) and isinstance(task, Mapping)):
        return task
    merged = dict(defaults)
    for key, value in task.items():
        merged[key] = _merged(defaults[key], value) if key in defaults else value
    return merged


def _selected(tasks: list[Any], select: Any, path: Path) -> list[Any]:
    known = {str(task.get("id")): task for task in tasks if isinstance(task, Mapping)}
    wanted = [select] if isinstance(select, str) else select
    if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
        raise UsageError(f"select takes a list of task ids such as [a,b], not {select!r:.60}")
    for name in wanted:
        if name not in known:
            ids = [str(id) for id in known]
            raise UsageError(
                f"unknown task '{name}'{nearest(str(name), ids)}; {path.name} has {choices(ids)}"
            )
    return [known[name] for name in wanted]


def header(registry: Registry, named: str) -> dict[str, Any]:
    """Return id, version and title of a suite file as they stand, or what is wrong with it."""
    from omegaconf import OmegaConf

    path = find(registry, named)
    try:
        raw = dict(OmegaConf.load(path))
        return {key: str(raw.get(key, "")) for key in ("id", "version", "title")}
    except Exception as error:  # a listing shows a stranger's broken file beside the others
        return {"id": "", "version": "", "title": f"cannot be read: {_first_line(error)}"}
