"""EAGLE heads: one decoder layer that predicts the target's next features, and from them its next tokens.

EAGLE-1 and -2 (arXiv 2401.15077, 2406.16858) share weights: the layer reads fc([embedding of token t+1 ; feature
f_t]), f being the target's last hidden state after its final norm, has no input norm, and its output goes to the
target's own lm_head and back in as the next feature.  EAGLE-3 (arXiv 2503.01840) reads features of three layers through
fc, once, and has norms, an lm_head and a draft vocabulary of its own.  The pair (f_t, token t+1) sits at position t.

A checkpoint is a folder with config.json and model.safetensors or pytorch_model.bin, in the layout of the public ones.
`d2t` int64[v] (EAGLE-3, and RestViz's own heads) maps the draft vocabulary: target's id = i + d2t[i].
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, PreTrainedModel
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from restviz.assets import fetch
from restviz.drafters.base import Context
from restviz.drafters.model import DraftRows
from restviz.errors import RestvizError
from restviz.target.model import Target
from restviz.target.products import Product, pack, packed, quantised


class HeadError(RestvizError):
    """An EAGLE checkpoint that cannot be used with the target."""


class Attention(nn.Module):
    """Grouped-query attention of inputs [n, width] over cached and new rows."""

    def __init__(self, config: LlamaConfig, width: int):
        super().__init__()
        qkv_bias = getattr(config, "qkv_bias", False)
        self.heads, self.kv_heads, self.dim = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(width, self.heads * self.dim, bias=qkv_bias)
        self.k_proj = nn.Linear(width, self.kv_heads * self.dim, bias=qkv_bias)
        self.v_proj = nn.Linear(width, self.kv_heads * self.dim, bias=qkv_bias)
        self.o_proj = nn.Linear(self.heads * self.dim, config.hidden_size, bias=False)

    def project(self, x: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Rotated queries [heads, n, d], rotated keys and values [kv_heads, n, d]."""
        return self.split(torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], dim=-1), rope)

    def split(self, qkv: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """`project`, from queries, keys and values beside each other [n, (heads + 2 kv_heads) × d]."""
        parts = qkv.view(len(qkv), -1, self.dim).transpose(0, 1).split([self.heads, self.kv_heads, self.kv_heads])
        q, k = apply_rotary_pos_emb(parts[0][None], parts[1][None], *rope)
        return q[0], k[0], parts[2]


class Layer(nn.Module):
    """The head's decoder layer; EAGLE-3 also has the two norms in front of its attention."""

    def __init__(self, config: LlamaConfig, eagle3: bool):
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        if eagle3:
            self.input_layernorm, self.hidden_norm = LlamaRMSNorm(size, eps), LlamaRMSNorm(size, eps)
        self.self_attn = Attention(config, 2 * size if eagle3 else size)
        self.post_attention_layernorm = LlamaRMSNorm(size, eps)
        self.mlp = LlamaMLP(config)


class EagleHead(nn.Module):
    """The weights of a head, with the names of the public checkpoints, and its arithmetic on rows [n, ...]."""

    def __init__(self, config: LlamaConfig, eagle3: bool, features: int, vocabulary: int, bias: bool):
        super().__init__()
        size = config.hidden_size
        self.config, self.eagle3 = config, eagle3
        self.fc = nn.Linear(features if eagle3 else 2 * size, size, bias=bias)
        if eagle3:
            self.midlayer = Layer(config, True)
            self.norm = LlamaRMSNorm(size, config.rms_norm_eps)
            self.lm_head = nn.Linear(size, vocabulary, bias=False)
        else:
            self.layers = nn.ModuleList([Layer(config, False)])
        self.rotary = LlamaRotaryEmbedding(config)

    @property
    def layer(self) -> Layer:
        return self.midlayer if self.eagle3 else self.layers[0]

    def inputs(self, embedding: torch.Tensor, feature: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What attention reads and what the residual carries, from embeddings [n, d] and recurrent features [n, d].

        EAGLE-3's target features [n, 3d] go through `fc` before they come here.
        """
        if self.eagle3:
            read = [self.layer.input_layernorm(embedding), self.layer.hidden_norm(feature)]
            return torch.cat(read, dim=-1), feature
        x = self.fc(torch.cat([embedding, feature], dim=-1))
        return x, x

    def project(self, x: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return self.layer.self_attn.project(x, rope)

    def rope(self, positions: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.rotary(like, positions[None])

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """The next features [n, d], from attention's output [n, heads × head_dim]."""
        x = residual + self.layer.self_attn.o_proj(attended)
        return x + self.layer.mlp(self.layer.post_attention_layernorm(x))


class Quick:
    """The arithmetic of a head for the few rows of a draft on a CPU: int8 products, merged where they read the same.

    The keys and values of committed tokens do not come from it: the rounding of activations depends on the rows that
    are multiplied together, and what a draft is made from must not depend on the steps by which the text came about.
    """

    def __init__(self, net: EagleHead, lm_head: torch.Tensor):
        attention, mlp = net.layer.self_attn, net.layer.mlp
        qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
        biases = None if qkv[0].bias is None else torch.cat([part.bias for part in qkv])
        self.net = net
        self.fc = None if net.eagle3 else quantised(net.fc.weight, net.fc.bias)
        self.qkv = quantised(torch.cat([part.weight for part in qkv]), biases)
        self.o = quantised(attention.o_proj.weight)
        self.gate_up = quantised(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
        self.down = quantised(mlp.down_proj.weight)
        self.logits = quantised(lm_head)
        needed = (self.qkv, self.o, self.gate_up, self.down, self.logits, self.fc or net.eagle3)
        self.possible = all(needed)

    def inputs(self, embedding: torch.Tensor, feature: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.fc is None:
            return self.net.inputs(embedding, feature)
        x = self.fc(torch.cat([embedding, feature], dim=-1))
        return x, x

    def project(self, x: torch.Tensor, rope: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return self.net.layer.self_attn.split(self.qkv(x), rope)

    def output(self, attended: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        x = residual + self.o(attended)
        gate, up = self.gate_up(self.net.layer.post_attention_layernorm(x)).chunk(2, dim=-1)
        return x + self.down(self.net.layer.mlp.act_fn(gate) * up)


@dataclass(frozen=True)
class Head:
    """A loaded head and what it needs of its target; shared by all runs."""

    name: str
    net: EagleHead
    ids: np.ndarray | None  # int64[v], see `DraftModel`
    embedding: torch.Tensor  # [vocab, d]
    lm_head: torch.Tensor  # [v, d], the rows of the draft vocabulary
    taps: tuple[int, ...]
    quick: Quick | None = None  # None: draft rows go through `net` too

    @cached_property
    def logits(self) -> Product:
        """Features [..., d] → logits [..., v]."""
        return packed(self.lm_head)


class Eagle:
    """An EAGLE head as a `DraftModel`, with a run's KV cache."""

    def __init__(self, head: Head):
        self.head, self.net, self.taps, self.ids = head, head.net, head.taps, head.ids
        self.guess = head.quick or head.net  # what the rows of a draft go through
        self.device = head.embedding.device
        self.keys = self.values = None  # [kv_heads, capacity, head_dim]
        self.committed = 0  # pairs of committed tokens in them; draft rows come behind

    @torch.inference_mode()
    def begin(self, context: Context) -> torch.Tensor:
        tokens, features, start = context.tokens, context.hidden, self.committed
        new = len(tokens) - 1 - start
        if features is None or len(features) != new:
            raise ValueError(f"{new} rows of features are due, one for each new token before the root")
        self._reserve(len(tokens) + context.max_depth)
        if self.net.eagle3:
            features = self.net.fc(features)
        positions = np.arange(start, start + new)
        hidden = self._forward(tokens[start + 1 :].tolist(), features, positions, start)
        self.committed, self.rows = start + new, DraftRows()
        self.features = hidden  # [1 + draft rows, d], the root's first
        return self._logits(hidden)[0]

    @torch.inference_mode()
    def expand(self, tokens: list[int], parents: list[int]) -> torch.Tensor:
        row = self.committed + len(self.rows.depth)
        self._reserve(row + len(tokens))
        sees, depth = self.rows.add(parents)
        visible = np.concatenate([np.ones((len(tokens), self.committed), dtype=bool), sees], axis=1)
        features = self.features[[parent + 1 for parent in parents]]
        hidden = self._forward(tokens, features, self.committed - 1 + depth, row, visible)
        self.features = torch.cat([self.features, hidden])
        return self._logits(hidden)

    def _forward(self, tokens, features, positions, row, visible=None) -> torch.Tensor:
        """Features [n, d] after draft rows put at `row` of the cache, which see what `visible` (bool[n, row + n]) says.

        Without it the rows are committed: [1, d] after the last, which sees everything.  A head has one layer, so of
        the rows before it only keys and values matter.
        """
        net = self.net if visible is None else self.guess
        stop = row + len(tokens)
        embedding = F.embedding(torch.tensor(tokens, device=self.device), self.head.embedding)
        x, residual = net.inputs(embedding, features)
        q, k, v = net.project(x, [table[:, positions] for table in self.rope])
        self.keys[:, row:stop], self.values[:, row:stop] = k, v
        if visible is None:
            q, residual = q[:, -1:], residual[-1:]
        keys, values = self.keys[:, :stop], self.values[:, :stop]
        heads, n, d = q.shape
        score = q.reshape(len(keys), -1, d) @ keys.transpose(1, 2) * d**-0.5  # queries that share a key lie together
        if visible is not None:
            hidden = torch.from_numpy(~visible).to(self.device)
            score = score.view(len(keys), -1, n, stop).masked_fill_(hidden, float("-inf")).view_as(score)
        attended = (score.softmax(-1) @ values).view(heads, n, d)
        return self.guess.output(attended.transpose(0, 1).flatten(1), residual)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        logits = self.head.quick.logits if self.head.quick else self.head.logits
        return logits(self.net.norm(hidden) if self.net.eagle3 else hidden)

    def _reserve(self, rows: int) -> None:
        """Make room for so many rows, and for the draft rows that usually come behind."""
        if self.keys is not None and rows <= self.keys.shape[1]:
            return
        attention, old = self.net.layer.self_attn, 0 if self.keys is None else self.keys.shape[1]
        grown = [self.head.embedding.new_empty(attention.kv_heads, rows + 128, attention.dim) for _ in range(2)]
        for new, before in zip(grown, (self.keys, self.values), strict=True):
            if old:
                new[:, :old] = before
        self.keys, self.values = grown
        self.rope = self.net.rope(torch.arange(rows + 128, device=self.device), self.head.embedding)


HEADS = Path(__file__).parent.parent / "heads"  # the heads that RestViz ships, a folder for each target's name


def head_for(name: str, target: Target) -> Head | None:
    """The head `name` (see `load_head`); `auto`: the one that RestViz ships for the target, if any; `none`: None."""
    shipped = HEADS / Path(target.info.name).name
    if name == "none" or (name == "auto" and not (shipped / "config.json").exists()):
        return None
    head = load_head(str(shipped) if name == "auto" else name, target.model, target.info.name)
    quick = Quick(head.net, head.lm_head)  # before the weights are packed
    pack(head.net)
    return replace(head, quick=quick if quick.possible else None)


def check_head_name(name: str) -> None:
    """Raise HeadError when `name` can be no head, before anything is loaded."""
    known = name in ("auto", "none") or re.fullmatch(r"(hub:|file:).+|[\w.-]+/[\w.-]+(@[\w./-]+)?", name)
    if not known and not Path(name).expanduser().is_dir():
        raise HeadError(f"There is no head “{name}”: name a checkpoint's folder, or a hub id such as org/name.")


def load_head(name: str, model: PreTrainedModel, target: str) -> Head:
    """An EAGLE-1, -2 or -3 checkpoint (a folder, or a hub id) for `model`, which people know as `target`.

    Raises HeadError naming missing keys and the shapes they must have, AssetError when it cannot be fetched.
    """
    check_head_name(name)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        spec = name if name.startswith(("hub:", "file:")) else f"hub:{name}"
        folder = fetch(spec, extra=("pytorch_model.bin",))  # public heads are pickles: read as weights only
    raw, weights = _read(folder)
    text, own = model.config.get_text_config(), model.get_output_embeddings().weight
    d2t, eagle3 = weights.get("d2t"), any(key.startswith("midlayer.") for key in weights)
    vocabulary = len(d2t) if d2t is not None else int(raw.get("draft_vocab_size") or own.shape[0])
    bias = "fc.bias" in weights if eagle3 else bool(raw.get("bias", True))
    net = EagleHead(_config(raw, weights, folder), eagle3, 3 * text.hidden_size, vocabulary, bias)
    _check(folder, net, weights, text.hidden_size, own.shape[0], target)
    net.load_state_dict({key: weights[key] for key in net.state_dict()})
    net = net.to(own.device, own.dtype).eval().requires_grad_(False)
    net.rotary = LlamaRotaryEmbedding(net.config).to(own.device)  # its frequencies stay in float32
    ids = None if d2t is None else torch.arange(vocabulary) + d2t
    lm_head = net.lm_head.weight if eagle3 else own if ids is None else own[ids.to(own.device)]
    layers = text.num_hidden_layers
    embedding = weights.get("embed_tokens.weight", model.get_input_embeddings().weight).detach()
    return Head(
        name=folder.name,
        net=net,
        ids=None if ids is None else ids.numpy(),
        embedding=embedding.to(own.device, own.dtype),
        lm_head=lm_head.detach(),
        taps=(2, layers // 2, layers - 3) if eagle3 else (-1,),
    )


def _read(folder: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    """config.json and the weights of a checkpoint folder; never a pickle's code."""
    from safetensors.torch import load_file

    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if (folder / "model.safetensors").exists():
            return raw, load_file(folder / "model.safetensors")
        return raw, torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise HeadError(
            f"{folder} is not an EAGLE checkpoint: it has no {Path(error.filename).name} (expected are config.json and "
            "model.safetensors or pytorch_model.bin)."
        ) from None
    except Exception as error:  # json, safetensors and torch each raise their own kinds
        raise HeadError(f"The EAGLE checkpoint in {folder} cannot be read ({type(error).__name__}).") from error


def _config(raw: dict, weights: dict, folder: Path) -> LlamaConfig:
    try:
        given = {name: int(raw[name]) for name in ("hidden_size", "intermediate_size", "num_attention_heads")}
    except KeyError as error:
        raise HeadError(f"The config.json in {folder} lacks {error}.") from None
    given["num_key_value_heads"] = int(raw.get("num_key_value_heads") or given["num_attention_heads"])
    given["head_dim"] = int(raw.get("head_dim") or given["hidden_size"] // given["num_attention_heads"])
    optional = (
        "rms_norm_eps",
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "hidden_act",
        "max_position_embeddings",
    )
    given |= {name: raw[name] for name in optional if raw.get(name) is not None}
    config = LlamaConfig(**given)
    config.qkv_bias = any(key.endswith("q_proj.bias") for key in weights)  # the public heads for Qwen2 have them
    return config


def _check(folder: Path, net: EagleHead, weights: dict, hidden: int, vocab_size: int, target: str) -> None:
    """Raise HeadError unless the weights are those of `net` and fit the target."""
    size = net.config.hidden_size
    if size != hidden:
        raise HeadError(
            f"The EAGLE checkpoint in {folder} is for a target with {size} features and {target} has "
            f"{hidden}: choose the head that was trained for it."
        )
    told, wanted = [], {key: list(value.shape) for key, value in net.state_dict().items()}
    if "embed_tokens.weight" in weights:
        wanted["embed_tokens.weight"] = [vocab_size, hidden]
    if net.eagle3 and (drafts := net.lm_head.out_features) != vocab_size:
        wanted["d2t"] = [drafts]
    for key, shape in wanted.items():
        if key not in weights:
            told.append(f"{key} {shape}")
        elif list(weights[key].shape) != shape:
            told.append(f"{key} {shape} (it is {list(weights[key].shape)} there)")
    if told:
        raise HeadError(f"The EAGLE checkpoint in {folder} lacks {'; '.join(told)}.")
    d2t = weights.get("d2t")
    if d2t is not None:
        ids = torch.arange(len(d2t)) + d2t
        if not bool((ids[1:] > ids[:-1]).all()) or int(ids[0]) < 0 or int(ids[-1]) >= vocab_size:
            raise HeadError(f"d2t of the EAGLE checkpoint in {folder} names tokens that {target} has not.")
