"""The command line, in a process of its own where a user's terminal matters."""

from __future__ import annotations

import io

import pytest

from restviz.cli import main
from restviz.show import _style, print_trace, tokens_with_source
from restviz.trace import Trace


@pytest.fixture
def store(tiny_folder, tmp_path):
    """A datastore for the tiny target, built by the command."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.py").write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
    out = tmp_path / "store"
    assert main(["datastore", "build", str(source), "--target", str(tiny_folder), "--out", str(out)]) == 0
    return out


@pytest.fixture
def options(tiny_folder, store):
    return ["--target", str(tiny_folder), "--datastore", str(store), "--dtype", "fp32", "--max-new-tokens", "8"]


def test_generate_writes_a_trace_that_show_prints(options, tmp_path, capsys):
    file = tmp_path / "out.json"
    assert main(["generate", "def add(a", "--no-chat", "--trace", str(file), *options]) == 0
    out, err = capsys.readouterr()
    trace = Trace.load(file)
    assert trace.text in out
    assert f"M = {trace.mean_generated_length:.2f} tokens/step" in err
    assert (trace.header.method, trace.header.parameters["max_new_tokens"]) == ("rest", 8)
    assert main(["trace", "show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("│") == len(trace.steps) + 1  # a seam before each step, and one in the legend
    assert "step" in shown


def test_shown_tokens_are_marked_by_origin(tiny_engine):
    from restviz.settings import Settings

    trace = tiny_engine.generate("def add(a", Settings(chat=False, max_new_tokens=20, n_min=1))
    drafted = next(i for i, step in enumerate(trace.steps) if len(step.nodes.token) > 1)
    trace.steps[drafted] = trace.steps[drafted].model_copy(update={"accepted": [1]})
    output = io.StringIO()
    print_trace(trace, output)
    plain = output.getvalue()
    assert "accepted from the datastore" in plain
    styles = {_style(source)[0] for step in trace.steps for _, source in tokens_with_source(step)}
    assert styles == {"", "green underline"}
    whole = b"".join(tiny_engine.token_text.bytes(token) for token in trace.tokens).decode(errors="replace")
    assert plain.replace("│", "").startswith(whole)


def test_the_datastore_is_described_and_searched(tiny_folder, store, capsys):
    assert main(["datastore", "info", str(store)]) == 0
    assert "tokens" in capsys.readouterr().out
    assert main(["datastore", "search", "def add", "--datastore", str(store), "--target", str(tiny_folder)]) == 0
    assert "a.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["generate", "x", "--budget", "0"], "budget cannot be 0"),
        (["generate", "x", "--method", "magic"], "no method “magic”"),
        (["generate", "x", "--trace", "/no/such/folder/t.json"], "its folder does not exist"),
        (["generate", "x", "--trace", "/tmp"], "it is a folder"),
        (["generate", "x", "--head", "nosuch"], "There is no head “nosuch”"),
        (["generate", "x", "--datastore", "nosuch"], "There is no datastore and no recipe nosuch"),
        (["train-head", "--text", "missing.jsonl"], "There is no file missing.jsonl"),
        (["train-head", "--text", "wikipedia:10", "--out", "/dev/null"], "cannot be made a folder"),
        (["generate", "x", "--target", "/no/such/model"], "“/no/such/model”"),
        (["trace", "show", "/no/such/file"], "cannot be read"),
    ],
)
def test_bad_input_is_one_sentence_and_status_1(arguments, sentence, capsys):
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert err.startswith("restviz: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_an_empty_prompt_is_one_sentence(options, capsys):
    assert main(["generate", " ", *options]) == 1
    assert "prompt is empty" in capsys.readouterr().err
