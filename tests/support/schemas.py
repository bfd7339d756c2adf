"""Writes the JSON Schemas of all tables to docs/schema/, as `make schema` asks for.

PYTHONPATH=tests python -m support.schemas
"""

import json
from pathlib import Path

from attnscan.cli.commands_table import declared_tables
from attnscan.results.schemas import schema_of

TABLES = {table.name: table for table in declared_tables()}
DIRECTORY = Path(__file__).parents[2] / "docs" / "schema"


def schema_files() -> dict[str, str]:
    """The text of each file, by its name."""
    files = {}
    for name, table in TABLES.items():
        files[f"{name}.json"] = json.dumps(schema_of(table), indent=2, ensure_ascii=False) + "\n"
    return files


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    files = schema_files()
    for path in DIRECTORY.glob("*.json"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
