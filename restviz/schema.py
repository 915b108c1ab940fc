"""The trace schema for people, made from the models themselves: `python -m restviz trace schema > docs/trace.md`."""

from __future__ import annotations

import inspect
import re

from restviz.trace import SCHEMA_VERSION, Record, Trace

INTRODUCTION = f"""# The trace, schema version {SCHEMA_VERSION}

A trace is one recorded run: plain JSON, gzipped when the file's name ends in `.gz`. The engine writes it, the page and
the exported pages draw from it alone, `restviz.Trace.load` reads it. Older versions are read as well; a newer one is
refused in a sentence. All times are milliseconds of wall clock.

This page is made from the code: `python -m restviz trace schema > docs/trace.md`.
"""


def described() -> str:
    """Markdown: a section for each kind of record, from the trace down."""
    found: list[type[Record]] = [Trace]
    for record in found:  # grows while it is gone through
        for field in record.model_fields.values():
            found += [part for part in _records(field.annotation) if part not in found]
    return INTRODUCTION + "".join(_section(record) for record in found)


def _records(annotation: object) -> list[type[Record]]:
    if inspect.isclass(annotation) and issubclass(annotation, Record):
        return [annotation]
    return [record for part in getattr(annotation, "__args__", ()) for record in _records(part)]


def _section(record: type[Record]) -> str:
    text = inspect.cleandoc(record.__doc__) if record.__doc__ else ""
    lines = [f"\n## {record.__name__}\n", f"{text}\n" if text else "", "| field | type | meaning |", "|---|---|---|"]
    for name, field in record.model_fields.items():
        kind = re.sub(r"(?:restviz\.trace|typing)\.|<class '|'>", "", str(field.annotation)).replace("|", "\\|")
        lines.append(f"| `{name}` | {kind} | {(field.description or '').replace('|', chr(92) + '|')} |")
    return "\n".join(line for line in lines if line) + "\n"
