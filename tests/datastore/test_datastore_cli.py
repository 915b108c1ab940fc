"""The commands, run as functions with a stand-in for the target's tokenizer."""

from __future__ import annotations

import argparse
import io
import json
import struct
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
    assert "2 documents\n" in built.out
    assert "1 file left out\n  empty: empty\n" in built.out
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


def told(capsys) -> dict:
    """The JSON object that a command printed, and nothing else."""
    return json.loads(capsys.readouterr().out)


def test_json(run, corpus, capsys, cache):
    (corpus / "latin.py").write_bytes(b"\xe9")
    run("datastore", "build", corpus, "--name", "mine", "--json")
    built = told(capsys)
    assert (built["built"], built["name"], built["documents"], built["shards"]) == (True, "mine", 2, 1)
    assert built["left_out"] == [["latin.py", "no UTF-8 text (byte 0xe9 at 0)"]]
    run("datastore", "list", "--json")
    listed = told(capsys)
    assert [store["name"] for store in listed["built"]] == ["mine"]
    assert {"python-code", "encyclopedia", "python-docs", "answers"} <= {recipe["name"] for recipe in listed["recipes"]}
    run("datastore", "info", "mine", "--json")
    assert told(capsys)["path"] == built["path"]
    run("datastore", "search", "    return a", "--datastore", "mine", "--json")
    found = told(capsys)
    assert "    return a".endswith(found["match"])
    assert [place["path"] for place in found["places"]] == ["one.py", "one.py", "two.py", "two.py"]
    assert sum(token["count"] for token in found["next"]) + found["ended"] == found["hits"] == 4
    run("datastore", "list")
    assert "mine\t" in capsys.readouterr().out


def test_standard_input(run, capsys, cache, monkeypatch):
    def given(data: bytes):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))

    given(b"some text")
    assert run("datastore", "build", "-", "--json") == 0
    assert (built := told(capsys))["name"] == "stdin"
    assert built["documents"] == 1
    given(b'{"body": {"en": "one"}}\n{"body": {"en": "two"}}\n')
    run("datastore", "build", "-", "--name", "piped", "--field", "body.en", "--json")
    assert told(capsys)["documents"] == 2


def test_merge_and_import(run, corpus, capsys, cache, tmp_path):
    for name in ("one", "two"):
        run("datastore", "build", corpus / f"{name}.py", "--name", name)
    capsys.readouterr()
    run("datastore", "merge", "one", "two", "--name", "both", "--json")
    assert told(capsys)["shards"] == 2
    run("datastore", "info", "both", "--verify")
    assert "every sha256 is right" in capsys.readouterr().out
    with pytest.raises(DatastoreError, match="“python-code” is the name of a recipe"):
        run("datastore", "merge", "one", "--name", "python-code")
    (tmp_path / "old.idx").write_bytes(struct.pack("<I3HI3i", 6, 65, 66, 67, 12, 0, 1, 2))
    run("datastore", "import-rest", tmp_path / "old.idx", "--tokenizer", "tiny", "--json")
    assert (imported := told(capsys))["tokens"] == 3
    assert imported["tokenizer_name"] == "tiny"


def test_scale(run, corpus, capsys, cache):
    run("datastore", "build", corpus, "--name", "mine", "--shard-tokens", "40", "--workers", "2", "--json")
    assert told(capsys)["shards"] == 2
    run("datastore", "build", corpus, "--name", "other", "--max-memory", "1G", "--json")
    assert told(capsys)["parameters"]["shard_tokens"] < 64_000_000
    with pytest.raises(DatastoreError, match="MB of memory are too little"):
        run("datastore", "build", corpus, "--name", "third", "--max-memory", "10M")
    with pytest.raises(DatastoreError, match="0 workers cannot build"):
        run("datastore", "build", corpus, "--name", "third", "--workers", "0")
    for amount in ("0", "much", "-4G"):
        with pytest.raises(SystemExit):
            run("datastore", "build", corpus, f"--max-memory={amount}")
    assert "is no amount: write it as 500M or 4G" in capsys.readouterr().err
