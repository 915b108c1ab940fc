"""README's example is run, and what it says about commands is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restviz.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_api_example_runs_on_the_real_model(capsys):
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    assert len(code.strip().splitlines()) <= 6
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "True" in printed


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"python -m restviz ([a-z][a-z -]*?)(?= [^a-z]|$|`)", README, re.M)))
)
def test_every_command_in_readme_exists(command, capsys):
    with pytest.raises(SystemExit) as leave:
        main([*command.split(), "--help"])
    assert leave.value.code == 0


def test_every_file_named_in_readme_exists():
    for path in re.findall(r"\]\(([^)#:]+)\)", README) + re.findall(r'src="([^":]+)"', README):
        assert (ROOT / path).exists(), path
