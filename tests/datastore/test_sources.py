"""Recipes: which files they choose, and one clear sentence for everything that can be wrong in one."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import sysconfig
import types

import pytest

from restviz.assets import AssetError
from restviz.datastore import Datastore, DatastoreError, Recipe, Source, build, load_recipe
from restviz.datastore.sources import RECIPES, read_documents, recipe_from_files

GOOD = """title = "t"
description = "d"
[[source]]
asset = "stdlib:"
licence = "l"
attribution = "a"
"""


def test_the_default_recipe():
    recipe = load_recipe("python-code")
    names = [name for name, _ in recipe.sources[0].files()]
    assert names == sorted(names)
    assert {"argparse.py", "asyncio/base_events.py", "json/decoder.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)
    for part in ("test", "tests", "idle_test", "site-packages", "__pycache__"):
        assert not [name for name in names if part in name.split("/")[:-1]]
    assert not [name for name in names if name.startswith(("_sysconfigdata", "config-"))], "these hold local paths"


def test_a_recipe_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    recipe = load_recipe(str(path))
    assert (recipe.name, recipe.title, recipe.description, recipe.field) == ("mine", "t", "d", "")
    assert recipe.sources == [Source("stdlib:", "l", "a", None, ["**/*"], [])]
    assert all(load_recipe(str(p)).sources for p in RECIPES.glob("*.toml")), "every recipe of the repository is one"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("title", "titel"), "has no “title”"),
        (('asset = "stdlib:"\n', ""), "has no “asset” in source 1"),
        (("[[source]]", "[[sauce]]"), "has no \\[\\[source\\]\\]"),
        (("[[source]]", "[source]"), "has no \\[\\[source\\]\\]"),
        (('"d"', "1"), "“description” must be a string"),
        (('"l"', "['l']"), "“licence” in source 1 must be a string"),
        (('"a"\n', '"a"\ninclude = "*.py"'), "“include” in source 1 must be a list of strings"),
        (('"a"\n', '"a"\nexclude = [1]'), "“exclude” in source 1 must be a list of strings"),
        (('"a"\n', '"a"\nlicense = "l"'), "has an unknown key “license” in source 1"),
        (('"d"', '"d"\nsplitt = "file"'), "has an unknown key “splitt”"),
        (('"a"\n', '"a"\nlimit = "ten"'), "“limit” in source 1 must be a number"),
        (('"a"\n', '"a"\nlimit = true'), "“limit” in source 1 must be a number"),
        (('"a"\n', '"a"\noptional = 1'), "“optional” in source 1 must be true or false"),
        (('"a"\n', '"a"\nextract = "code"'), "“extract” in source 1 must be “docstrings” or “rest-idx”, not “code”"),
        (('"d"', '"d'), "is not valid TOML"),
    ],
)
def test_mistakes_in_a_recipe(tmp_path, change, message):
    path = tmp_path / "mine.toml"
    assert GOOD.count(change[0]) == 1
    path.write_text(GOOD.replace(*change))
    with pytest.raises(DatastoreError, match=message):
        load_recipe(str(path))


def test_an_unknown_recipe(tmp_path):
    with pytest.raises(DatastoreError, match=r"no datastore and no recipe nothing \(known recipes: .*python-code"):
        load_recipe("nothing")
    with pytest.raises(DatastoreError, match="There is no datastore and no recipe"):
        load_recipe(str(tmp_path / "nothing.toml"))
    with pytest.raises(DatastoreError, match="is no name for a datastore"):
        recipe_from_files([str(tmp_path)], name="../up")
    with pytest.raises(DatastoreError, match="is neither a recipe nor a file or folder"):
        recipe_from_files([str(tmp_path / "nothing")])


def test_an_asset_that_cannot_be_had(tmp_path):
    with pytest.raises(AssetError, match="does not exist"):
        Source(f"file:{tmp_path}/nothing", "l", "a").files()


@pytest.mark.parametrize(
    ("include", "exclude", "chosen"),
    [
        (["**/*"], [], ["a.py", "b.txt", "sub/a.py", "sub/tests/a.py", "tests/a.py"]),
        (["**/*.py"], [], ["a.py", "sub/a.py", "sub/tests/a.py", "tests/a.py"]),
        (["*.py"], [], ["a.py"]),
        (["sub/*"], [], ["sub/a.py"]),
        (["sub/**"], [], ["sub/a.py", "sub/tests/a.py"]),
        (["**/*.py", "?.txt"], ["**/tests/**"], ["a.py", "b.txt", "sub/a.py"]),
        (["**/*"], ["sub/**", "a.py"], ["b.txt", "tests/a.py"]),
    ],
)
def test_globs(tmp_path, include, exclude, chosen):
    for name in ("a.py", "b.txt", "sub/a.py", "sub/tests/a.py", "tests/a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x")
    source = Source(f"file:{tmp_path}", "l", "a", include=include, exclude=exclude)
    assert [name for name, _ in source.files()] == chosen
    assert all(path == tmp_path / name for name, path in source.files())


def test_a_source_that_is_one_file(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    assert Source(f"file:{tmp_path}/a.txt", "l", "a").files() == [("a.txt", tmp_path / "a.txt")]


def test_the_standard_library_is_the_running_interpreters():
    (_, path), *_ = Source("stdlib:", "l", "a", include=["argparse.py"], exclude=["*/**"]).files()
    assert str(path).startswith(sysconfig.get_paths()["stdlib"])


RECORDS = """
title = "t"
description = "d"
field = "answer"

[[source]]
asset = "file:texts.jsonl.gz"
licence = "l"
attribution = "a"
"""


def test_records_of_json_lines_next_to_the_recipe(tmp_path):
    (tmp_path / "mine.toml").write_text(RECORDS)
    lines = [{"prompt": "p", "answer": "one"}, {"answer": " "}, {"answer": "three"}]
    (tmp_path / "texts.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    recipe = load_recipe(str(tmp_path / "mine.toml"))
    ((source, name, path),) = recipe.files()
    documents = list(read_documents(recipe, source, name, path))
    assert {d.path for d in documents} == {"texts.jsonl.gz"}
    assert [(d.record, d.text) for d in documents] == [(1, "one"), (3, "three")]
    path.write_bytes(gzip.compress('{"answer": "a\u2028b"}\n{"other": 1}\n[1]\nno\n{"answer": "c"}'.encode()))
    documents = list(read_documents(recipe, source, name, path))
    assert [(d.record, d.text) for d in documents] == [(1, "a\u2028b"), (5, "c")]
    path.write_bytes(b"\x1f\x8bnot gzip")
    assert list(read_documents(recipe, source, name, path)) == []


def test_answers_that_were_distilled_are_records(tmp_path):
    (tmp_path / "answers.jsonl").write_text(json.dumps({"prompt": "p", "answer": "one", "tokens": 1}) + "\n")
    recipe = recipe_from_files([str(tmp_path / "answers.jsonl")])
    assert [d.text for file in recipe.files() for d in read_documents(recipe, *file)] == ["one"]


def test_globs_and_several_paths(tmp_path):
    for name in ("src/a.py", "src/deep/b.py", "src/c.txt", "d.txt", "src/.hidden.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x")
    recipe = recipe_from_files([str(tmp_path / "src" / "**" / "*.py"), str(tmp_path / "d.txt")])
    assert [(i, name) for i, name, _ in recipe.files()] == [(0, "a.py"), (0, "deep/b.py"), (1, "d.txt")]
    assert (recipe.name, recipe.description) == ("src", "Built from *.py, d.txt.")
    assert [name for _, name, _ in recipe_from_files([str(tmp_path / "*.txt")]).files()] == ["d.txt"]
    with pytest.raises(DatastoreError, match="is neither a recipe nor a file or folder"):
        recipe_from_files([str(tmp_path / "nothing" / "*.py")])


def test_of_a_git_checkout_what_git_ignores_is_left_out(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for name in ("kept.py", "new.py", "build/made.py", "ignored.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    subprocess.run([*git, "add", "kept.py"], check=True)
    assert [name for _, name, _ in recipe_from_files([str(tmp_path)]).files()] == ["kept.py", "new.py"]


class Streamed:
    """What `datasets.load_dataset` was asked for, and gives."""

    def __init__(self, monkeypatch, records):
        self.asked, self.records = None, records
        module = types.ModuleType("datasets")
        module.load_dataset = self.load
        monkeypatch.setitem(sys.modules, "datasets", module)

    def load(self, name, **options):
        self.asked = (name, options)
        for record in self.records:
            if isinstance(record, Exception):
                raise record
            yield record


def test_a_dataset_is_streamed(monkeypatch, tmp_path, byte_tokenizer):
    hub = Streamed(monkeypatch, [{"data": ["one", "two"]}, {"data": []}, {"data": ["three"]}, {"data": ["four"]}])
    source = Source("dataset:org/name@abc?split=train_sft&data_dir=data/python", "l", "a", limit=3)
    recipe = Recipe("hub", "t", "d", [source], "data.*")
    ((index, name, path),) = recipe.files()
    assert [(d.record, d.text) for d in read_documents(recipe, index, name, path)] == [
        (1, "one"),
        (1, "two"),
        (3, "three"),
    ]
    options = {"split": "train_sft", "data_dir": "data/python", "streaming": True, "revision": "abc"}
    assert hub.asked == ("org/name", options)
    build(recipe, byte_tokenizer, tmp_path / "store", progress=False)
    assert Datastore.open(tmp_path / "store").meta.documents == 3
    hub.records = [ConnectionError("no network")]
    with pytest.raises(AssetError, match=r"org/name could not be streamed from the hub \(ConnectionError\): check"):
        list(read_documents(recipe, index, name, path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(AssetError, match="needs the package datasets: pip install datasets"):
        list(read_documents(recipe, index, name, path))


def test_recipes_from_the_hub_are_pinned():
    sources = [source for path in RECIPES.glob("*.toml") for source in load_recipe(path.stem).sources]
    streamed = [source.asset for source in sources if source.asset.startswith("dataset:")]
    assert len(streamed) == 3
    assert all(re.match(r"dataset:[\w-]+/[\w.-]+@[0-9a-f]{40}\?", asset) for asset in streamed)
    fetched = [source for source in sources if source.asset.startswith("pypi:")]
    assert all(source.sha256 for source in fetched)
