"""The page about the trace schema is the one that the code makes."""

from __future__ import annotations

from pathlib import Path

from restviz.schema import described


def test_the_documented_schema_is_the_codes():
    assert (Path(__file__).parents[1] / "docs" / "trace.md").read_text(encoding="utf-8") == described()


def test_every_kind_of_record_is_told_of():
    for name in (
        "Trace",
        "Header",
        "Step",
        "Nodes",
        "Match",
        "FirstStep",
        "Tested",
        "Look",
        "Times",
        "Finish",
        "Check",
    ):
        assert f"\n## {name}\n" in described()
    assert "restviz.trace" not in described()
