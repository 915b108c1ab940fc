"""The benchmarks of methods and heads run to their end on the tiny model, and say what they should."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from restviz.bench.head import agreement
from restviz.bench.prompts import CHOICES, chosen
from restviz.bench.speed import _variant
from restviz.cli import main
from restviz.errors import RestvizError
from restviz.settings import Settings, SettingsError


@pytest.fixture
def options(tiny_folder, tiny_engine):
    return ["--target", str(tiny_folder), "--datastore", str(tiny_engine.datastores[0].path), "--dtype", "fp32"]


@pytest.fixture
def head(tiny, tmp_path):
    from restviz.train.head import new_head, write_head

    torch.manual_seed(3)
    ids = np.arange(5, 300)
    write_head(tmp_path / "head", new_head(tiny.model.config, len(ids)), ids, {})
    return str(tmp_path / "head")


def test_speed_of_several_runs_against_one_baseline(options, head, tmp_path, capsys):
    out = tmp_path / "speed.json"
    runs = ["pld", "rest:n_min=1", "rasd:prune_k=3,retrievers=context"]
    arguments = ["bench", "speed", *options, "--head", head, "--prompts", "questions", "--limit", "2"]
    assert main([*arguments, "--max-new-tokens", "8", "--runs", *runs, "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert list(result["variants"]) == runs
    assert all(figures["identical"] == 2 for figures in result["variants"].values())
    assert len(result["rows"]) == 2
    row = result["rows"][0]
    for name in runs:
        variant = row["variants"][name]
        tokens, seconds = sum(variant["emitted"][1:]), sum(sum(ms.values()) for ms in variant["step_ms"][1:]) / 1000
        assert variant["tokens_per_second"] == pytest.approx(tokens / seconds)
        assert variant["ratio"] == pytest.approx(
            variant["tokens_per_second"] / row["autoregressive"]["tokens_per_second"]
        )
    assert "2 of 2 texts identical" in capsys.readouterr().out


def test_the_live_datastore_holds_what_earlier_prompts_gave(options, tmp_path):
    out, runs = tmp_path / "speed.json", ["rest:n_min=1,stores=corpus", "rest:n_min=1,stores=corpus+live"]
    arguments = ["bench", "speed", *options, "--head", "none", "--prompts", "questions", "--limit", "3"]
    assert main([*arguments, "--max-new-tokens", "24", "--runs", *runs, "--json", str(out)]) == 0
    without, live = ([row["variants"][run]["M"] for row in json.loads(out.read_text())["rows"]] for run in runs)
    assert without[0] == live[0], "there is nothing in it at first"
    assert sum(live) > sum(without)


def test_a_run_that_cannot_be_is_refused_before_anything_is_measured(options, capsys):
    assert main(["bench", "speed", *options, "--runs", "eagle"]) == 1
    assert "name one with --head" in capsys.readouterr().err
    assert main(["bench", "speed", *options, "--runs", "rest:budget=none"]) == 1
    assert "budget cannot be 'none'" in capsys.readouterr().err


def test_a_variant_is_a_method_with_changes():
    settings = _variant(Settings(budget=7), "rasd:prune-k=3,retrievers=context")
    assert (settings.method, settings.prune_k, settings.retrievers, settings.budget) == ("rasd", 3, "context", 7)
    with pytest.raises(SettingsError, match="no setting"):
        _variant(Settings(), "rest:size=3")


def test_agreement_of_a_head_that_copies_the_target(tiny, tiny_engine, head):
    """Agreement counted by drafting, position by position."""
    from restviz.api import Engine
    from restviz.drafters import Context
    from restviz.drafters.eagle import Eagle, load_head

    engine = Engine(tiny, tiny_engine.datastores, load_head(head, tiny.model, "tiny"))
    trace = engine.generate("def add(", Settings(method="autoregressive", chat=False, max_new_tokens=12))
    prompt, tokens = trace.header.prompt_ids, trace.tokens
    agreed = agreement(engine, prompt, tokens)
    assert agreed.shape == (len(tokens) - 3, 4)
    ids = prompt + tokens
    session = tiny.session(len(ids), (-1,))
    session.prefill(ids)
    for i in range(len(agreed)):
        root = len(prompt) + i
        drafter = Eagle(engine.head)
        logits = drafter.begin(Context(np.array(ids[: root + 1], dtype=np.int32), 9, session.hidden[:root]))
        best = engine.head.ids[logits.topk(10).indices.numpy()]
        assert agreed[i, 0] == (best[0] == ids[root + 1])
        assert agreed[i, 1] == (ids[root + 1] in best)
        second = drafter.expand([ids[root + 1]], [-1])[0]
        assert agreed[i, 2] == (engine.head.ids[int(second.argmax())] == ids[root + 2])


def test_bench_head_prints_shares(options, head, tmp_path, capsys):
    out = tmp_path / "head.json"
    arguments = ["bench", "head", *options, "--head", head, "--prompts", "questions", "--limit", "1"]
    assert main([*arguments, "--max-new-tokens", "9", "--json", str(out)]) == 0
    figures = json.loads(out.read_text())
    assert 0 <= figures["first token, top 1"] <= figures["first token, top 10"] <= 1
    assert main(["bench", "head", *options, "--head", "none"]) == 1
    assert "There is no EAGLE head" in capsys.readouterr().err


def test_prompts_of_every_choice():
    assert {which: len(chosen(which)) for which in CHOICES} == {
        "code": 10,
        "questions": 10,
        "all": 20,
        "humaneval": 164,
        "short": 20,
    }
    assert all(chat for _, chat in chosen("humaneval"))


def test_prompts_of_a_file(tmp_path, options, capsys):
    (tmp_path / "mine.txt").write_text("Why?\n\n How so? \n")
    (tmp_path / "mine.jsonl").write_text('{"prompt": "a\\nb"}\n{"other": 1}\n')
    assert chosen(str(tmp_path / "mine.txt")) == [("Why?", True), ("How so?", True)]
    assert chosen(str(tmp_path / "mine.jsonl")) == [("a\nb", True)]
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(RestvizError, match=r"There are no prompts in .*empty.txt: it is empty"):
        chosen(str(tmp_path / "empty.txt"))
    assert main(["bench", "speed", *options, "--prompts", "nothing"]) == 1
    assert "There are no prompts “nothing”: choose from code, questions" in capsys.readouterr().err
