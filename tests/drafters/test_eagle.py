"""EAGLE heads: checkpoints written in the public layouts, against a slow forward in float64 without cache or tree."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from restviz.drafters import Context
from restviz.drafters.eagle import Eagle, HeadError, Quick, load_head
from restviz.drafters.model import ModelDrafter
from restviz.settings import Settings

VOCABULARY = 305  # of the tiny target
SIZE, HEADS, KV_HEADS, INNER = 64, 4, 2, 96
DIM = SIZE // HEADS
THETA = 500.0
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": SIZE,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-5,
    "rope_theta": THETA,
    "hidden_act": "silu",
    "vocab_size": VOCABULARY,
}


def attention(prefix: str, width: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}.q_proj.weight": (HEADS * DIM, width),
        f"{prefix}.k_proj.weight": (KV_HEADS * DIM, width),
        f"{prefix}.v_proj.weight": (KV_HEADS * DIM, width),
        f"{prefix}.o_proj.weight": (SIZE, HEADS * DIM),
    }


def mlp(prefix: str) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}.gate_proj.weight": (INNER, SIZE),
        f"{prefix}.up_proj.weight": (INNER, SIZE),
        f"{prefix}.down_proj.weight": (SIZE, INNER),
    }


EAGLE2 = {  # EAGLE-1 and -2 as published
    "embed_tokens.weight": (VOCABULARY, SIZE),
    "fc.weight": (SIZE, 2 * SIZE),
    "fc.bias": (SIZE,),
    **attention("layers.0.self_attn", SIZE),
    **mlp("layers.0.mlp"),
    "layers.0.post_attention_layernorm.weight": (SIZE,),
}
DRAFT_VOCABULARY = 100
EAGLE3 = {  # EAGLE-3 as published
    "fc.weight": (SIZE, 3 * SIZE),
    "midlayer.hidden_norm.weight": (SIZE,),
    "midlayer.input_layernorm.weight": (SIZE,),
    "midlayer.post_attention_layernorm.weight": (SIZE,),
    **attention("midlayer.self_attn", 2 * SIZE),
    **mlp("midlayer.mlp"),
    "norm.weight": (SIZE,),
    "lm_head.weight": (DRAFT_VOCABULARY, SIZE),
}
KINDS = ("eagle2", "eagle2-no-bias", "eagle2-bin", "eagle2-cut", "eagle2-qkv-bias", "eagle3")


def checkpoint(folder, kind: str, without: str = "", **wrong):
    """A folder with a random checkpoint of this kind; its weights."""
    generator = torch.Generator().manual_seed(7)
    shapes, config = dict(EAGLE3 if kind == "eagle3" else EAGLE2), dict(CONFIG)
    if kind == "eagle2-no-bias":
        del shapes["fc.bias"]
        config["bias"] = False
    if kind == "eagle2-qkv-bias":
        for name, size in (("q", HEADS * DIM), ("k", KV_HEADS * DIM), ("v", KV_HEADS * DIM)):
            shapes[f"layers.0.self_attn.{name}_proj.bias"] = (size,)
    if kind == "eagle2-cut":  # RestViz's own: the target's embedding, and a draft vocabulary
        del shapes["embed_tokens.weight"]
    weights = {key: torch.randn(shape, generator=generator) * 0.15 for key, shape in shapes.items()}
    if kind in ("eagle3", "eagle2-cut"):
        ids = torch.randperm(VOCABULARY, generator=generator)[:DRAFT_VOCABULARY].sort().values
        weights["d2t"] = ids - torch.arange(DRAFT_VOCABULARY)
        weights["t2d"] = torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, ids, True)
        config["draft_vocab_size"] = DRAFT_VOCABULARY
    weights |= wrong
    weights.pop(without, None)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if kind == "eagle2-bin":
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        from safetensors.torch import save_file

        save_file(weights, folder / "model.safetensors")
    return weights


class Reference:
    """The head's arithmetic in float64, one whole sequence of (feature, token) pairs after the other."""

    def __init__(self, weights: dict, target):
        self.w = {key: value.double() for key, value in weights.items() if value.is_floating_point()}
        self.eagle3 = "midlayer.hidden_norm.weight" in weights
        self.prefix = "midlayer." if self.eagle3 else "layers.0."
        self.embedding = self.w.get("embed_tokens.weight", target.model.get_input_embeddings().weight.double())
        head = self.w["lm_head.weight"] if self.eagle3 else target.model.get_output_embeddings().weight.double()
        self.ids = None
        if "d2t" in weights:
            self.ids = torch.arange(DRAFT_VOCABULARY) + weights["d2t"]
            head = head if self.eagle3 else head[self.ids]
        self.head = head

    def linear(self, name, x):
        y = x @ self.w[f"{name}.weight"].T
        return y + self.w[f"{name}.bias"] if f"{name}.bias" in self.w else y

    def norm(self, name, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.w[f"{name}.weight"]

    def rotate(self, x, position):
        half = DIM // 2
        angle = position / THETA ** (torch.arange(half, dtype=torch.float64) / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)

    def last(self, features, tokens):
        """The feature after the last pair, pair i at position i; recurrent features are given as they are."""
        p = self.prefix
        embedding = self.embedding[torch.tensor(tokens)]
        feature = torch.stack(features)
        if self.eagle3:
            x = torch.cat([self.norm(p + "input_layernorm", embedding), self.norm(p + "hidden_norm", feature)], -1)
            residual = feature
        else:
            x = residual = self.linear("fc", torch.cat([embedding, feature], -1))
        q, k, v = (self.linear(f"{p}self_attn.{name}_proj", x).view(len(tokens), -1, DIM) for name in "qkv")
        q = torch.stack([self.rotate(q[i], i) for i in range(len(tokens))])
        k = torch.stack([self.rotate(k[i], i) for i in range(len(tokens))])
        attended = []
        for head in range(HEADS):
            group = head // (HEADS // KV_HEADS)
            weight = torch.softmax(k[:, group] @ q[-1, head] / math.sqrt(DIM), dim=0)
            attended.append(weight @ v[:, group])
        x = residual[-1] + self.linear(f"{p}self_attn.o_proj", torch.cat(attended))
        y = self.norm(p + "post_attention_layernorm", x)
        gate, up = self.linear(f"{p}mlp.gate_proj", y), self.linear(f"{p}mlp.up_proj", y)
        return x + self.linear(f"{p}mlp.down_proj", torch.nn.functional.silu(gate) * up)

    def logp(self, hidden, tokens, path):
        """log q of the token after `path`, drafted after `tokens`; `hidden` are the target's features."""
        features = [self.linear("fc", row) if self.eagle3 else row for row in hidden.double()]
        pairs = list(tokens[1:])
        for step in range(len(path) + 1):
            feature = self.last(features, pairs)
            if step < len(path):
                features.append(feature)
                pairs.append(path[step])
        x = self.norm("norm", feature) if self.eagle3 else feature
        return torch.log_softmax(x @ self.head.T, dim=-1)


def head_of(folder, target):
    return load_head(str(folder), target.model, target.info.name)


def features(target, tokens, taps):
    """The target's hidden states of all tokens, from transformers itself."""
    with torch.no_grad():
        states = target.model.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.cat([states[tap][0] for tap in taps], dim=-1)


@pytest.mark.parametrize("kind", KINDS)
def test_draft_tree_is_the_slow_forwards(tiny, tmp_path, kind):
    weights = checkpoint(tmp_path / "head", kind)
    head = head_of(tmp_path / "head", tiny)
    reference = Reference(weights, tiny)
    drafter = ModelDrafter(Eagle(head), k=4, depth=3, budget=20)
    tokens = np.random.default_rng(1).integers(3, VOCABULARY, 30).tolist()
    hidden = features(tiny, tokens, head.taps)
    seen = 0
    for length in (9, 10, 14, 15):  # the prompt, then steps that accepted 0, 3 and 0 draft tokens
        context = Context(np.array(tokens[:length], dtype=np.int32), 50, hidden[seen : length - 1])
        draft, seen = drafter.propose(context), length - 1
        tree = draft.tree
        assert len(tree) == 21
        assert tree.depth.max() >= 2
        for node in range(len(tree)):
            path = [int(tree.token[i]) for i in tree.path(node)]
            expected = reference.logp(hidden[: length - 1], tokens[:length], path)
            for token, child in tree.children(node).items():
                index = token if reference.ids is None else int((reference.ids == token).nonzero())
                step = tree.logp[child] - (tree.logp[node] if node else 0.0)
                assert step == pytest.approx(float(expected[index]), abs=2e-3)
            if node == 0:
                assert draft.first.p == pytest.approx(expected.exp().numpy(), abs=1e-4)
                best = expected.topk(4).indices
                best = best if reference.ids is None else reference.ids[best]
                assert set(tree.children(0)) <= set(best.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_quantised_draft_rows_are_near_and_do_not_depend_on_how_the_text_came_about(tiny, tmp_path, kind):
    checkpoint(tmp_path / "head", kind)
    head = head_of(tmp_path / "head", tiny)
    quick = Quick(head.net, head.lm_head)
    if not quick.possible:
        pytest.skip("this build of PyTorch has no int8 products")
    tokens = np.random.default_rng(1).integers(3, VOCABULARY, 30).astype(np.int32)
    hidden = features(tiny, tokens.tolist(), head.taps)

    def logits(head, *lengths):
        eagle, seen = Eagle(head), 0
        for length in lengths:
            root = eagle.begin(Context(tokens[:length], 50, hidden[seen : length - 1]))
            seen = length - 1
        return [root, *eagle.expand([5, 6], [-1, -1]), *eagle.expand([7], [1])]

    exact, near = logits(head, 20), logits(replace(head, quick=quick), 20)
    for a, b in zip(exact, near, strict=True):
        assert 0 < float((a - b).norm()) < 0.1 * float(a.norm())
    for a, b in zip(near, logits(replace(head, quick=quick), 9, 12, 20), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["eagle2", "eagle3"])
def test_taps_are_the_layers_that_the_head_was_trained_on(tiny, tmp_path, kind, monkeypatch):
    checkpoint(tmp_path / "head", kind)
    assert head_of(tmp_path / "head", tiny).taps == {"eagle2": (-1,), "eagle3": (2, 1, -1)}[kind]
    monkeypatch.setattr(tiny.model.config, "num_hidden_layers", 30)
    assert head_of(tmp_path / "head", tiny).taps == {"eagle2": (-1,), "eagle3": (2, 15, 27)}[kind]


def test_target_features_are_what_lm_head_reads(tiny):
    session = tiny.session(40, taps=(-1,))
    logits = session.prefill(list(range(10, 30)))
    expected = tiny.model.lm_head(session.hidden[-1:])[0]
    assert torch.allclose(logits, expected, atol=1e-5)
    assert session.hidden.shape == (20, SIZE)


@pytest.mark.parametrize("kind", ["eagle2", "eagle2-cut", "eagle3"])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "seed": 2}], ids=["greedy", "sampled"])
def test_every_method_writes_the_autoregressive_text(tiny_engine, tmp_path, kind, sampling):
    from restviz.api import Engine

    checkpoint(tmp_path / "head", kind)
    engine = Engine(tiny_engine.target, tiny_engine.datastores, head_of(tmp_path / "head", tiny_engine.target))
    base = Settings(chat=False, max_new_tokens=24, n_min=1, **sampling)
    plain = engine.generate("def add(", base.but(method="autoregressive"))
    for changes in (
        {"method": "eagle"},
        {"method": "pld"},
        {"method": "rasd"},
        {"method": "rasd", "retrievers": "datastore", "prune_k": 100},
        {"method": "rasd", "retrievers": "context", "prune_k": 0},
        {"method": "rasd", "fused_cap": 9},
    ):
        trace = engine.generate("def add(", base.but(**changes))
        assert trace.tokens == plain.tokens, changes
        assert trace.forwards <= plain.forwards


def test_trace_of_rasd_has_what_pruning_was_decided_by(tiny_engine, tmp_path):
    from restviz.api import Engine

    checkpoint(tmp_path / "head", "eagle2-cut")
    engine = Engine(tiny_engine.target, tiny_engine.datastores, head_of(tmp_path / "head", tiny_engine.target))
    trace = engine.generate("def add(", Settings(method="rasd", chat=False, max_new_tokens=24, n_min=1, prune_k=3))
    pruned = 0
    for step in trace.steps[1:]:
        assert step.first.k == 3
        assert step.first.p == sorted(step.first.p, reverse=True)
        for tested in step.first.tested:
            token = step.nodes.token[tested.node]
            assert (tested.rank <= 3) == (token in step.first.token[:3])
            if step.nodes.fate[tested.node] == "pruned_first_token":
                assert tested.rank > 3
                pruned += 1
    assert pruned


def test_a_missing_key_and_a_wrong_shape_are_named(tiny, tmp_path):
    checkpoint(tmp_path / "a", "eagle2", without="fc.bias")
    with pytest.raises(HeadError, match=r"lacks fc.bias \[64\]"):
        head_of(tmp_path / "a", tiny)
    checkpoint(tmp_path / "b", "eagle3", **{"norm.weight": torch.zeros(9)})
    with pytest.raises(HeadError, match=r"norm.weight \[64\] \(it is \[9\] there\)"):
        head_of(tmp_path / "b", tiny)
    checkpoint(tmp_path / "c", "eagle3", without="d2t")
    with pytest.raises(HeadError, match=rf"lacks d2t \[{DRAFT_VOCABULARY}\]"):
        head_of(tmp_path / "c", tiny)
    checkpoint(tmp_path / "d", "eagle2", **{"embed_tokens.weight": torch.zeros(9, SIZE)})
    with pytest.raises(HeadError, match=rf"embed_tokens.weight \[\d+, {SIZE}\] \(it is \[9, {SIZE}\] there\)"):
        head_of(tmp_path / "d", tiny)


def test_what_is_no_checkpoint_is_refused_in_a_sentence(tiny, tmp_path):
    with pytest.raises(HeadError, match="There is no head “nosuch”"):
        head_of("nosuch", tiny)
    (tmp_path / "empty").mkdir()
    with pytest.raises(HeadError, match=r"it has no config.json"):
        head_of(tmp_path / "empty", tiny)
    checkpoint(tmp_path / "other", "eagle2")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(config | {"hidden_size": 32}))
    with pytest.raises(HeadError, match=r"for a target with 32 features"):
        head_of(tmp_path / "other", tiny)
    checkpoint(tmp_path / "d2t", "eagle3", d2t=torch.full((DRAFT_VOCABULARY,), 400))
    with pytest.raises(HeadError, match=r"names tokens"):
        head_of(tmp_path / "d2t", tiny)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "config.json").write_text("{")
    with pytest.raises(HeadError, match=r"cannot be read"):
        head_of(tmp_path / "cut", tiny)
