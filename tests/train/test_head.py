"""Training a head on the tiny model: unrolling is what drafting does, and what is written loads again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from restviz.drafters import Context
from restviz.drafters.eagle import Eagle, Head, load_head
from restviz.errors import RestvizError
from restviz.target.load import pretrained_tokenizer
from restviz.train.features import Corpus, collect
from restviz.train.head import frequent, new_head, train, unroll, write_head
from restviz.train.plan import Plan


@pytest.fixture(scope="module")
def model(tiny):
    return tiny.model


@pytest.fixture(scope="module")
def answers(tmp_path_factory, tiny_folder):
    path = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    records = [{"prompt": f"def add{i}(", "answer": f"a, b):\n    return a + b + {i}\n" * 3} for i in range(120)]
    path.write_text("\n".join(map(json.dumps, records)))
    return path


@pytest.fixture(scope="module")
def corpus(answers, tiny_folder, model, tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp("data"), pretrained_tokenizer(tiny_folder)
    return Corpus([collect(folder, str(answers), 10**9, tokenizer, model)])


def test_features_are_the_targets(corpus, model):
    assert len(corpus) == 120
    tokens, features, mask = corpus.batch([3, 90])
    for row in range(2):
        n = int(mask[row].sum())
        with torch.no_grad():
            expected = model.model(tokens[row : row + 1, :n]).last_hidden_state[0]
        assert torch.allclose(features[row, :n].float(), expected, atol=0.05, rtol=0.02)
    assert not mask.all()


def test_so_many_tokens_of_each_source_are_used_and_parts_are_numbered_through(answers, tiny_folder, model, tmp_path):
    tokenizer = pretrained_tokenizer(tiny_folder)
    parts = [collect(tmp_path, str(answers), 300, tokenizer, model, seed) for seed in (1, 2)]
    assert all(300 <= len(part.tokens) < 400 for part in parts)
    both = Corpus(parts)
    n = len(both) // 2
    tokens, features, _ = both.batch([0, len(both) - 1])
    assert tokens[0][:5].tolist() == parts[0].tokens[:5].tolist()
    last = parts[1].starts[-2]
    assert tokens[1][:5].tolist() == parts[1].tokens[last : last + 5].tolist()
    assert torch.equal(features[1, :5], parts[1].features[last : last + 5])
    assert n > 2


def test_features_are_kept_for_the_same_text_and_target_only(answers, tiny_folder, model, tmp_path):
    tokenizer = pretrained_tokenizer(tiny_folder)
    (tmp_path / "more").mkdir()
    grown = tmp_path / "more" / answers.name
    grown.write_text(answers.read_text())
    first, same = (len(collect(tmp_path, str(path), 10**9, tokenizer, model).tokens) for path in (answers, grown))
    assert first == same
    assert len(list(tmp_path.glob("answers.jsonl-*"))) == 2  # the features, and the lock beside them
    grown.write_text(answers.read_text() + '\n{"prompt": "x", "answer": "y"}')
    assert len(collect(tmp_path, str(grown), 10**9, tokenizer, model).tokens) > first


def test_unrolling_is_what_drafting_does(model):
    """Step j at index i equals drafting the true tokens one after the other from the committed pairs 0 … i."""
    torch.manual_seed(1)
    net = new_head(model.config, 305).eval()
    for parameter in net.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    embedding = model.get_input_embeddings().weight.detach()
    tokens = np.random.default_rng(2).integers(3, 305, 20)
    features = torch.randn(20, embedding.shape[1])
    ids = torch.from_numpy(tokens)[None]
    with torch.no_grad():
        steps = list(unroll(net, embedding, ids, features[None], 3))
    head = Head("random", net, None, embedding, torch.eye(embedding.shape[1]), (-1,))
    for i in (4, 11, 15):
        drafter = Eagle(head)
        found = [drafter.begin(Context(tokens[: i + 2].astype(np.int32), 10, features[: i + 1]))]
        for step in (2, 3):
            parent = step - 3
            found.append(drafter.expand([int(tokens[i + step])], [parent])[0])
        for step in range(3):
            assert torch.allclose(steps[step][0, i], found[step], atol=1e-4), (i, step)


def test_training_learns_goes_on_after_a_stop_and_writes_a_checkpoint(corpus, model, tmp_path):
    embedding, own = model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()
    ids = frequent(corpus.tokens, own.shape[0], 200)
    lm_head = own[torch.from_numpy(ids)]
    plan = Plan(epochs=3, batch=4, steps=2, warmup=5, rate=2e-3)
    torch.manual_seed(0)
    net = new_head(model.config, len(ids))
    saved = []
    figures = train(corpus, net, embedding, lm_head, plan, tmp_path, saved.append, every=0)
    first, last = (f["held_out"]["answers.jsonl"][0] for f in (saved[0], figures))
    assert last > first + 0.2
    assert len(saved) == figures["of"] == figures["step"]

    # interrupted at every checkpoint, it comes to the same weights
    for folder in ("other", "third"):
        (tmp_path / folder).mkdir()
    other, steps = None, []

    def interrupted(made):
        steps.append(made["step"])
        raise KeyboardInterrupt

    while not steps or steps[-1] < figures["of"]:
        torch.manual_seed(0)
        other = new_head(model.config, len(ids))
        with pytest.raises(KeyboardInterrupt):
            train(corpus, other, embedding, lm_head, plan, tmp_path / "other", interrupted, every=0)
    assert steps == list(range(1, figures["of"] + 1))
    for own, wanted in zip(other.state_dict().values(), net.state_dict().values(), strict=True):
        assert torch.allclose(own, wanted, atol=1e-5)

    # it was interrupted before its last head was written: that is made up for
    again = []
    assert train(corpus, new_head(model.config, len(ids)), embedding, lm_head, plan, tmp_path, again.append) == figures
    assert again == [figures]
    with pytest.raises(RestvizError, match="another --out"):
        train(corpus, net, embedding, lm_head, plan, tmp_path, again.append, about={"target": "another"})
    with pytest.raises(RestvizError, match="less than one batch"):
        train(corpus, net, embedding, lm_head, replace(plan, batch=500), tmp_path / "third", again.append)

    write_head(tmp_path, net, ids, figures)
    head = load_head(str(tmp_path), model, "tiny")
    assert head.ids.tolist() == ids.tolist()
    assert torch.allclose(head.net.fc.weight, net.fc.weight.bfloat16().float())
    assert json.loads((tmp_path / "figures.json").read_text()) == figures


def test_frequent_tokens_are_the_draft_vocabulary():
    tokens = np.array([5, 5, 5, 9, 9, 2, 7])
    assert frequent(tokens, 12, 3).tolist() == [2, 5, 9]
    assert frequent(tokens, 12, 0).tolist() == list(range(12))
