"""Distilling answers with the tiny model: batches, resuming, and what is refused."""

from __future__ import annotations

import gzip
import json

import pytest

from restviz.cli import main
from restviz.errors import RestvizError
from restviz.target.build import load_plain
from restviz.target.load import pretrained_tokenizer
from restviz.train.distil import distil, framed, read_records

PROMPTS = [{"prompt": text, "kind": "code"} for text in ("def add(", "class Counter:", "return a", "self", "x" * 30)]


@pytest.fixture
def answer(tiny_folder, tmp_path):
    def run(tokens=10**6, **options):
        out = tmp_path / "answers.jsonl"
        options = {"batch": 2, "longest": 12, "device": "cpu", "dtype": "fp32"} | options
        have = distil(str(tiny_folder), PROMPTS, out, tokens, **options)
        return have, list(read_records(out))

    return run


def test_answers_are_the_targets_greedy_ones_whatever_the_batch(answer, tiny_folder):
    have, records = answer()
    assert have == sum(record["tokens"] for record in records)
    assert {record["prompt"] for record in records} == {record["prompt"] for record in PROMPTS}
    model, tokenizer = load_plain(str(tiny_folder), "fp32", "cpu"), pretrained_tokenizer(tiny_folder)
    for record in records:
        ids = tokenizer(framed(tokenizer, record["prompt"]), return_tensors="pt", add_special_tokens=False)["input_ids"]
        alone = model.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :]
        assert record["answer"] == tokenizer.decode(alone, skip_special_tokens=True)
        assert record["kind"] == "code"


def test_it_stops_at_so_many_tokens_and_goes_on_from_there(answer):
    have, records = answer(tokens=5)
    assert have >= 5
    assert len(records) == 2
    _, more = answer()
    assert more[:2] == records
    assert len(more) == len(PROMPTS)
    assert answer() == (sum(record["tokens"] for record in more), more)


def test_a_line_that_was_cut_is_made_again(answer, tmp_path):
    _, records = answer()
    out = tmp_path / "answers.jsonl"
    out.write_bytes(out.read_bytes()[:-20])
    assert sorted(map(json.dumps, answer()[1])) == sorted(map(json.dumps, records))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"prompt": "a"}, "line 1 holds no answer"),
        ({"prompt": "a", "answer": "b", "tokens": 1, "target": "another"}, "holds answers of another, not of"),
    ],
)
def test_answers_are_not_mixed_with_something_else(answer, tmp_path, record, sentence):
    (tmp_path / "answers.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(RestvizError, match=sentence):
        answer()


def test_a_file_that_holds_something_else_is_left_as_it_is(answer, tmp_path):
    for text in ("my only note", "a\nb", '{"prompt": "a"}', '{"prompt": "a"}\n{"prompt": "b"}'):
        (tmp_path / "answers.jsonl").write_text(text)
        with pytest.raises(RestvizError):
            answer()
        assert (tmp_path / "answers.jsonl").read_text() == text


def test_where_answers_cannot_go_is_told_before_a_model_is_loaded(tmp_path):
    (tmp_path / "file").write_text("")
    for out, sentence in (
        (tmp_path / "a.jsonl.gz", "gzip them afterwards"),
        (tmp_path / "file" / "a.jsonl", "cannot be"),
    ):
        with pytest.raises(RestvizError, match=sentence):
            distil("no such model", PROMPTS, out, 10)


def test_sampled_answers_are_the_same_for_the_same_seed(answer, tmp_path):
    texts = []
    for seed in (1, 1, 2):
        (tmp_path / "answers.jsonl").unlink(missing_ok=True)
        texts.append([record["answer"] for record in answer(temperature=1.0, seed=seed)[1]])
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("text", ["not json\n", '{"text": 1}\n', "[1]\n"])
def test_a_file_that_is_none_of_prompts_is_refused(tmp_path, text):
    (tmp_path / "prompts.jsonl").write_text(text)
    with pytest.raises(RestvizError):
        list(read_records(tmp_path / "prompts.jsonl"))


def test_gzipped_records_are_read(tmp_path):
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(json.dumps(PROMPTS[0]).encode()))
    assert list(read_records(tmp_path / "p.jsonl.gz")) == PROMPTS[:1]


def test_command_line(tiny_folder, tmp_path, capsys, monkeypatch):
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, PROMPTS)))
    out = tmp_path / "a.jsonl"
    arguments = ["datastore", "distil", "--target", str(tiny_folder), "--prompts", str(tmp_path / "p.jsonl")]
    assert main([*arguments, "--out", str(out), "--longest", "4", "--batch", "3", "--device", "cpu"]) == 0
    assert "All 5 prompts are answered" in capsys.readouterr().out
    assert len(list(read_records(out))) == 5
    assert main([*arguments, "--out", str(out), "--tokens", "0"]) == 1
    assert "must be at least 1" in capsys.readouterr().err
