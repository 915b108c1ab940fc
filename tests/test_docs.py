"""The examples of docs/ run as they stand there, and name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import restviz
from restviz.drafters import METHODS
from restviz.trace import Trace

DOCS = Path(__file__).parents[1] / "docs"


def examples(name):
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.S)


def run(code, name):
    exec(compile(code, name, "exec"), {})


@pytest.mark.parametrize("number", range(len(examples("api.md"))))
def test_examples_of_the_api_run(number, capsys):
    run(examples("api.md")[number], f"api.md, example {number + 1}")


def test_every_public_name_is_told_about():
    told = (DOCS / "api.md").read_text(encoding="utf-8")
    assert [name for name in restviz.__all__ if f"restviz.{name}" not in told and name not in ("Engine", "Run")] == []
    assert "`Engine`" in told
    assert "`Run`" in told


def test_the_drafter_in_40_lines_writes_the_targets_text(monkeypatch, tmp_path, capsys):
    [code] = examples("drafter.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
    monkeypatch.chdir(tmp_path)
    try:
        run(code, "drafter.md")
    finally:
        METHODS.pop("bigrams", None)
    same, _, M = capsys.readouterr().out.partition(" ")
    assert same == "True"
    assert float(M.split()[-1]) > 1
    assert Trace.load("bigrams.json.gz").header.parameters["length"] == 3


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_what_is_linked_exists(page):
    for path in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / path).exists(), path


def test_the_index_names_every_page():
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index] == []
