"""The commands, run as functions with a stand-in for the target's tokenizer."""

from __future__ import annotations

import argparse
import sys
import types

import pytest

from restviz.datastore import Datastore, DatastoreError, cli


@pytest.fixture
def run(monkeypatch, byte_tokenizer):
    module = types.ModuleType("restviz.target.load")
    module.load_tokenizer = lambda name="default": byte_tokenizer
    monkeypatch.setitem(sys.modules, "restviz.target.load", module)

    def run(*arguments: object) -> int:
        parser = argparse.ArgumentParser()
        cli.add_commands(parser.add_subparsers(required=True))
        args = parser.parse_args([str(argument) for argument in arguments])
        return args.run(args)

    return run


def test_build_info_search(run, corpus, capsys, cache):
    (corpus / "empty").write_text("")
    assert run("datastore", "build", corpus, "--name", "mine", "--target", "tiny") == 0
    built = capsys.readouterr()
    assert "Built mine" in built.out
    assert "2 documents, 1 files that are empty or no text skipped" in built.out
    assert "tokenising" in built.err, "progress goes to stderr"
    assert run("datastore", "build", corpus, "--name", "mine") == 0
    assert "Up to date: mine" in capsys.readouterr().out

    assert run("datastore", "info", "mine", "--verify") == 0
    info = capsys.readouterr().out
    assert "tokenizer\ttiny" in info
    assert "every sha256 is right" in info

    assert run("datastore", "search", "    return a", "--datastore", "mine", "--limit", 3) == 0
    found = capsys.readouterr().out
    assert "Longest match: the last" in found
    assert "one.py:3\t" in found
    assert "two.py:3\t" in found
    assert run("datastore", "search", "~~~~", "--datastore", "mine") == 0
    assert "Nothing that the text ends in occurs in mine." in capsys.readouterr().out


def test_build_somewhere_else_and_from_a_recipe(run, tmp_path, corpus, capsys):
    assert run("datastore", "build", corpus / "one.py", "--out", tmp_path / "out") == 0
    assert Datastore.open(tmp_path / "out").meta.name == "one"
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        f'title = "t"\ndescription = "d"\n[[source]]\nasset = "file:{corpus}"\nlicence = "MIT"\nattribution = "me"\n'
    )
    assert run("datastore", "build", recipe, "--out", tmp_path / "out") == 0
    assert run("datastore", "info", tmp_path / "out") == 0
    assert "licence\tMIT; me" in capsys.readouterr().out


def test_on_a_terminal_there_are_tables(run, corpus, capsys, monkeypatch):
    run("datastore", "build", corpus, "--name", "mine")
    capsys.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    run("datastore", "search", "    return a", "--datastore", "mine")
    assert "┏" in capsys.readouterr().out


def test_what_is_not_there(run, tmp_path):
    with pytest.raises(DatastoreError, match="There is no datastore nothing"):
        run("datastore", "info", "nothing")
    with pytest.raises(DatastoreError, match="There is no datastore and no recipe nothing"):
        run("datastore", "build", "nothing")
    with pytest.raises(DatastoreError, match="There is no datastore and no recipe nothing"):
        run("datastore", "search", "text", "--datastore", "nothing")
    with pytest.raises(DatastoreError, match="is neither a recipe nor a file or folder"):
        run("datastore", "build", tmp_path / "a", tmp_path / "b")
