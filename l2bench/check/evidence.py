"""What is known of a bundle while it is checked: its documents, its tables, and the board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from l2bench.bundle.lifetime import Array, Lifetime, columns
from l2bench.bundle.model import AgentCard, Manifest, Provenance, Role
from l2bench.check.board import Board
from l2bench.check.findings import Finding
from l2bench.scenario import Block, plan
from l2bench.suite import Suite

#: A rule: looks at a bundle and yields what is wrong.
Check = Callable[["Evidence"], Iterable[Finding]]


@dataclass
class Evidence:
    """One bundle under check. Stages fill it in; a rule sees only what earlier stages accepted."""

    folder: Path
    board: Board | None = None
    plugins: bool = False
    companion_of: Evidence | None = None
    role: Role | None = None
    manifest: Manifest = field(init=False)
    suite: Suite = field(init=False)
    agent: AgentCard = field(init=False)
    provenance: Provenance = field(default_factory=Provenance)
    scores: dict[str, Any] = field(default_factory=dict)
    recomputed: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    companions: dict[str, Evidence] = field(default_factory=dict)

    def lifetimes(self, role: Role) -> list[Lifetime]:
        """Return the lifetimes inside the bundle that have this role."""
        return [each.lifetime for each in self.companions.values() if each.role == role]

    @property
    def imported(self) -> bool:
        """Whether the bundle was made from another tool's results."""
        return self.manifest.source is not None

    @property
    def closed(self) -> bool:
        """Whether the bundle claims that the suite was run as registered."""
        return self.manifest.suite.division == "closed"

    @cached_property
    def plan(self) -> tuple[Block, ...]:
        """The blocks that the suite prescribes for this seed."""
        return plan(self.suite, self.manifest.seed.lifetime)

    @cached_property
    def blocks(self) -> dict[int, dict[str, Any]]:
        """The rows of the blocks table by block index."""
        return {row["block_index"]: row for row in self.tables["blocks"].to_pylist()}

    @cached_property
    def episodes(self) -> Mapping[str, Array]:
        """The columns of the episodes table."""
        return columns(self.tables["episodes"])

    @cached_property
    def learning(self) -> Mapping[str, Array]:
        """The columns of the learning table."""
        return columns(self.tables["learning"])

    @cached_property
    def lifetime(self) -> Lifetime:
        """The tables as one lifetime."""
        return Lifetime(
            self.suite,
            self.manifest.seed.lifetime,
            self.tables["blocks"],
            self.tables["episodes"],
            self.tables["learning"],
            complete=self.manifest.status != "incomplete",
            cells=self.tables.get("cells"),
        )
