"""The assistant drafter: its tree is what whole forwards of the assistant say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from restviz.api import Engine
from restviz.drafters import Context
from restviz.drafters.assistant import Assistant, load_assistant
from restviz.drafters.model import ModelDrafter
from restviz.settings import Settings
from restviz.target.load import TargetError


@pytest.fixture(scope="module")
def assistant(tiny, tiny_folder):
    return load_assistant(str(tiny_folder), tiny)


def test_draft_tree_is_what_whole_forwards_say(assistant):
    drafter = ModelDrafter(Assistant(assistant), k=3, depth=3, budget=25)
    tokens = np.random.default_rng(3).integers(3, 305, 40).tolist()
    for length in (12, 13, 17, 40):
        tree = drafter.propose(Context(np.array(tokens[:length], dtype=np.int32), 20)).tree
        assert len(tree) == 26
        for node in range(len(tree)):
            path = [int(tree.token[i]) for i in tree.path(node)]
            with torch.no_grad():
                logits = assistant.model(torch.tensor([tokens[:length] + path])).logits[0, -1]
            expected = torch.log_softmax(logits.double(), dim=-1)
            for token, child in tree.children(node).items():
                step = tree.logp[child] - (tree.logp[node] if node else 0.0)
                assert step == pytest.approx(float(expected[token]), abs=2e-3)


@pytest.mark.parametrize("method", ["assistant", "rasd"])
def test_an_assistant_that_is_the_target_is_always_right(tiny, tiny_engine, assistant, method):
    engine = Engine(tiny, tiny_engine.datastores, assistant=assistant)
    base = Settings(chat=False, max_new_tokens=25, draft_model="assistant")
    plain = engine.generate("def add(", base.but(method="autoregressive"))
    trace = engine.generate("def add(", base.but(method=method, draft_nodes=40))
    assert trace.tokens == plain.tokens
    assert trace.mean_generated_length > 3


def test_another_tokenizer_is_refused(tiny, tiny_folder, tmp_path):
    import json
    import shutil

    other = tmp_path / "other"
    shutil.copytree(tiny_folder, other)
    file = other / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    a, b = list(vocabulary)[50:52]
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    file.write_text(json.dumps(tokenizer))
    with pytest.raises(TargetError, match="another tokenizer"):
        load_assistant(str(other), tiny)


def test_methods_without_their_draft_model_are_refused(tiny_engine):
    for method, sentence in (("eagle", "--head"), ("assistant", "--assistant"), ("rasd", "--head")):
        with pytest.raises(Exception, match=sentence):
            tiny_engine.stream("def add(", Settings(method=method))
    assert tiny_engine.methods() == ["autoregressive", "pld", "rest"]


def test_without_a_head_rasd_drafts_with_the_assistant(tiny, tiny_engine, assistant):
    engine = Engine(tiny, tiny_engine.datastores, assistant=assistant)
    assert engine.methods() == ["autoregressive", "pld", "rest", "assistant", "rasd"]
    trace = engine.generate("def add(", Settings(method="rasd", chat=False, max_new_tokens=8))
    assert any(step.first for step in trace.steps)
