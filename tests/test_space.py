"""What a Hugging Face Space reads of README and requirements.txt is true."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from restviz.target.load import DEFAULT_SOURCES

ROOT = Path(__file__).parents[1]
FRONT = yaml.safe_load((ROOT / "README.md").read_text(encoding="utf-8").split("---\n")[1])
REQUIRED = {
    requirement.name: requirement
    for line in (ROOT / "requirements.txt").read_text().splitlines()
    if (requirement := Requirement(line))
}
PINNED = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))


def test_the_sdk_is_the_gradio_that_is_tested():
    assert FRONT["sdk"] == "gradio"
    assert FRONT["sdk_version"] == PINNED["gradio"]
    assert Version(FRONT["sdk_version"]) in REQUIRED["gradio"].specifier


def test_requirements_allow_what_a_zerogpu_space_has_and_what_is_tested():
    for version in ("2.8.0", "2.9.1", "2.10.0", "2.11.0"):
        assert Version(version) in REQUIRED["torch"].specifier
    assert FRONT["python_version"] == "3.12"
    for name, requirement in REQUIRED.items():
        if name in PINNED:
            assert Version(PINNED[name].split("+")[0]) in requirement.specifier, name


def test_files_and_models_that_are_named_exist():
    assert (ROOT / FRONT["app_file"]).exists()
    assert FRONT["models"] == FRONT["preload_from_hub"] == [DEFAULT_SOURCES[0][0].removeprefix("hub:")]
    assert FRONT["license"] == "apache-2.0"
    assert len(FRONT["short_description"]) <= 60
