"""Write the JSON Schemas that ship with the package: ``python tests/make_schemas.py``."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from l2bench.bundle.model import AgentCard, Manifest, Provenance
from l2bench.check.models import BoardFiles, Submission
from l2bench.suite import Suite

PLACE = Path(__file__).parent.parent / "l2bench" / "bundle" / "schemas"

DOCUMENTS: dict[str, type[BaseModel]] = {
    "manifest": Manifest,
    "suite": Suite,
    "agent": AgentCard,
    "provenance": Provenance,
    "submission": Submission,
    "board": BoardFiles,
}


def schema(name: str) -> str:
    """Return the text of a document's schema."""
    model = DOCUMENTS[name].model_json_schema()
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **model}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        (PLACE / f"{name}.json").write_text(schema(name), encoding="utf-8")
