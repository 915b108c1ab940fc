"""The benchmark of building runs to its end on a small recipe, and its figures belong together."""

from __future__ import annotations

import json

from restviz.cli import main


def test_builds_and_searches_are_measured(tiny_folder, tmp_path, capsys):
    (tmp_path / "words.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 400)
    (tmp_path / "small.toml").write_text(
        'title = "t"\ndescription = "d"\n[[source]]\nasset = "file:words.txt"\nlicence = "l"\nattribution = "a"\n'
    )
    out = tmp_path / "out.json"
    recipes = ["--recipes", str(tmp_path / "small.toml")]
    options = ["--target", str(tiny_folder), "--repeats", "2", "--contexts", "20", "--json", str(out)]
    assert main(["bench", "build", *recipes, *options]) == 0
    result = json.loads(out.read_text())
    assert {kind: len(rows) for kind, rows in result["rows"].items()} == {"reference": 2, "1 shards": 2, "8 shards": 2}
    for row in result["rows"]["1 shards"]:
        assert row["tokens"] == result["reference"]["tokens"]
        spent = row["tokens"] / row["tokenising_per_s"] + row["tokens"] / row["sorting_per_s"] + row["hashing_s"]
        assert spent <= row["total_s"] + 0.02
        assert row["peak_mb"] >= row["peak_before_mb"] > 0
    assert result["1 shards"]["search_us"]["p50"] > 0
