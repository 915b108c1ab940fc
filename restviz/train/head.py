"""Training an EAGLE head for a target.

The head has the layout of EAGLE-1 and -2 with a draft vocabulary: the target's embedding and the rows of its lm_head
for the most frequent tokens are used as they are.  It is trained to give the target's distribution (cross-entropy with
soft labels over the draft vocabulary), not on the first step alone: as in EAGLE-3 (arXiv 2503.01840, section 3.1) and
HASS (arXiv 2408.15766) every sequence is unrolled for `steps` steps, later ones reading the head's own features, and
attending to the target's features of the tokens before and the head's own of the steps since: what drafting does.

A checkpoint is written every few minutes, and a run that finds one of its own goes on from there.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F
from tqdm import tqdm
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv

from restviz.drafters.eagle import EagleHead
from restviz.errors import RestvizError
from restviz.train.features import Corpus
from restviz.train.plan import Plan

HELD_OUT = 50  # one sequence of so many is not trained on


def new_head(text: LlamaConfig, vocabulary: int) -> EagleHead:
    """A random head with the dimensions of the target's own layers (`text`: the target's text config)."""
    config = head_config(text)
    head = EagleHead(config, eagle3=False, features=0, vocabulary=vocabulary, bias=True)
    for name, parameter in head.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    return head


def head_config(text: LlamaConfig) -> LlamaConfig:
    """The config of a head for a target: one layer of the target's shape."""
    return LlamaConfig(
        hidden_size=text.hidden_size,
        intermediate_size=text.intermediate_size,
        num_attention_heads=text.num_attention_heads,
        num_key_value_heads=text.num_key_value_heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
        num_hidden_layers=1,
        rms_norm_eps=text.rms_norm_eps,
        max_position_embeddings=text.max_position_embeddings,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )


def write_head(out: Path, head: EagleHead, ids: np.ndarray, figures: dict) -> None:
    """Write a checkpoint in EAGLE's layout, in bfloat16, with d2t for the draft vocabulary; and the figures."""
    weights = {key: value.detach().to("cpu", torch.bfloat16).contiguous() for key, value in head.state_dict().items()}
    weights["d2t"] = torch.from_numpy(ids) - torch.arange(len(ids))
    config = head.config
    names = (
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "rms_norm_eps",
    )
    raw = {name: getattr(config, name) for name in names}
    raw |= {"rope_theta": config.rope_parameters["rope_theta"], "bias": True, "draft_vocab_size": len(ids)}
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "model.safetensors.partial"
    save_file(weights, partial)
    partial.replace(out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
    (out / "figures.json").write_text(json.dumps(figures, indent=2) + "\n")


def frequent(tokens: np.ndarray, vocab_size: int, vocabulary: int) -> np.ndarray:
    """int64[v] ascending: the `vocabulary` most frequent ids (all, when 0)."""
    if not 0 < vocabulary < vocab_size:
        return np.arange(vocab_size)
    counts = np.bincount(tokens, minlength=vocab_size)
    return np.sort(np.argsort(-counts, kind="stable")[:vocabulary])


def unroll(head: EagleHead, embedding: torch.Tensor, tokens: torch.Tensor, features: torch.Tensor, steps: int):
    """Yields the head's features [b, t, d] of each step; index i of step j predicts the features of token i + j.

    `tokens` int64[b, t]; `features` [b, t, d], the target's.  Step j at index i stands for the pair (own feature of
    token i + j - 1, token i + j) after the pairs 0 … i of the target's features and i's own of the steps before.
    """
    b, t = tokens.shape
    attention, layer = head.layer.self_attn, head.layer
    groups = attention.heads // attention.kv_heads
    causal = torch.ones(t, t, dtype=torch.bool, device=tokens.device).tril()
    keys, values = [], []
    hidden = features
    for step in range(1, steps + 1):
        following = F.pad(tokens[:, step:], (0, min(step, t)))[:, :t]
        x, residual = head.inputs(F.embedding(following, embedding), hidden)
        shape = (b, t, -1, attention.dim)
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in (attention.q_proj, attention.k_proj, attention.v_proj))
        positions = torch.arange(step - 1, step - 1 + t, device=tokens.device)
        q, k = apply_rotary_pos_emb(q, k, *head.rope(positions, x))
        keys.append(repeat_kv(k, groups))
        values.append(repeat_kv(v, groups))
        score = (q @ keys[0].transpose(2, 3)).masked_fill(~causal, float("-inf"))
        own = [(q * key).sum(-1, keepdim=True) for key in keys[1:]]
        weight = torch.softmax(torch.cat([score, *own], dim=-1).float() * attention.dim**-0.5, dim=-1).to(q.dtype)
        attended = weight[..., :t] @ values[0]
        for i, value in enumerate(values[1:]):
            attended = attended + weight[..., t + i : t + i + 1] * value
        hidden = residual + attention.o_proj(attended.transpose(1, 2).flatten(2))
        hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        yield hidden


def predictions(head, embedding, lm_head, tokens, features, mask, steps) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Logits float32[n, v] of the head and of the target over the draft vocabulary, for each step of `unroll`."""
    tokens, features, mask = (value.to(embedding.device) for value in (tokens, features, mask))
    features = features.to(embedding.dtype)
    half = embedding.dtype != torch.float32  # products in the target's dtype; the head's own weights are float32
    with torch.autocast(embedding.device.type, dtype=embedding.dtype if half else None, enabled=half):
        with torch.no_grad():
            teacher = F.linear(features, lm_head)
        for step, hidden in enumerate(unroll(head, embedding, tokens, features, steps), 1):
            seen = mask[:, step:]  # index i predicts the target's distribution after token i + step
            logits = F.linear(hidden[:, :-step][seen].to(lm_head.dtype), lm_head)
            yield logits.float(), teacher[:, step:][seen].float()


def losses(head, embedding, lm_head, tokens, features, mask, steps) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy with the target's distribution, float[steps], and how often the likeliest token is the same."""
    loss, agree = [], []
    for logits, wanted in predictions(head, embedding, lm_head, tokens, features, mask, steps):
        loss.append(F.cross_entropy(logits, torch.softmax(wanted, dim=-1)))
        agree.append((logits.argmax(-1) == wanted.argmax(-1)).float().mean())
    return torch.stack(loss), torch.stack(agree)


def train(
    corpus: Corpus,
    head: EagleHead,
    embedding: torch.Tensor,
    lm_head: torch.Tensor,
    plan: Plan,
    out: Path,
    save: Callable[[dict], None],
    every: float = 180,
    about: dict | None = None,
) -> dict:
    """Train `head` in place; figures of the run.  `save(figures)` is called at every checkpoint (`every` seconds).

    A checkpoint in `out` is gone on from when it is of the same plan and the same `about` (what else the run depends
    on, as plain values).  Raises RestvizError when it is of another run, and when there is less than one batch.
    """
    order, held = _split(corpus, plan)
    if len(order) < plan.batch:
        raise RestvizError(
            f"There are {len(order)} sequences to train on, less than one batch of {plan.batch}: give more text, or a "
            "smaller --batch."
        )
    total = max(int(len(order) * plan.epochs) // plan.batch, 1)
    optimizer = torch.optim.AdamW(head.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.01)
    state, step, run = out / "state.pt", 0, {"plan": asdict(plan), "about": about or {}}
    if state.exists():
        saved = torch.load(state, map_location=embedding.device, weights_only=True)
        if {name: saved.get(name) for name in run} != run:
            raise RestvizError(f"{out} holds the training of another head: choose another --out, or delete {state}.")
        head.load_state_dict(saved["head"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    weights = torch.tensor([plan.decay**i for i in range(plan.steps)], device=embedding.device)

    def checkpoint() -> dict:
        figures = {"step": step, "of": total, **evaluate(corpus, held, head, embedding, lm_head, plan)}
        held_state = {"head": head.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(held_state | run, state.with_suffix(".partial"))
        state.with_suffix(".partial").replace(state)
        save(figures)
        return figures

    figures, last = {}, time.monotonic()
    with tqdm(total=total, initial=step, desc="training", unit="step") as bar:
        while step < total:
            for group in optimizer.param_groups:
                group["lr"] = plan.rate * _schedule(step, total, plan.warmup)
            tokens, features, mask = corpus.batch(_batch(order, step, plan))
            loss, agree = losses(head, embedding, lm_head, tokens, features, mask, plan.steps)
            optimizer.zero_grad(set_to_none=True)
            (loss * weights).sum().backward()
            torch.nn.utils.clip_grad_norm_(head.parameters(), 0.5)
            optimizer.step()
            step += 1
            bar.update()
            bar.set_postfix(loss=f"{loss[0]:.2f}", agree=" ".join(f"{a:.2f}" for a in agree.tolist()), refresh=False)
            if time.monotonic() - last > every or step == total:
                figures = checkpoint()
                tqdm.write(json.dumps(figures))
                last = time.monotonic()
    return figures or checkpoint()  # it was whole before: perhaps its head was not written any more


@torch.no_grad()
def evaluate(corpus, held, head, embedding, lm_head, plan) -> dict:
    """For each source the shares of held-out tokens, those of prompts included, where the head's likeliest token is the
    target's likeliest of the draft vocabulary, step by step; last: where that is among the first step's ten."""
    result: dict[str, list[float]] = {}
    for source in sorted(set(corpus.sources)):
        mine = [i for i in held if corpus.sources[i] == source][:64]
        sums, counts = np.zeros(plan.steps + 1), np.zeros(plan.steps + 1)
        for start in range(0, len(mine), plan.batch):
            batch = corpus.batch(mine[start : start + plan.batch])
            for step, (logits, wanted) in enumerate(predictions(head, embedding, lm_head, *batch, plan.steps)):
                best = wanted.argmax(-1)
                sums[step] += float((logits.argmax(-1) == best).sum())
                counts[step] += len(best)
                if step == 0:
                    sums[-1] += float((logits.topk(10).indices == best[:, None]).any(-1).sum())
                    counts[-1] += len(best)
        if counts.all():
            result[Path(source).name] = [round(value, 3) for value in (sums / counts).tolist()]
    return {"held_out": result}


def _split(corpus: Corpus, plan: Plan) -> tuple[list[int], list[int]]:
    """Sequences to train on and those held out; the same for the same corpus and seed."""
    every = list(range(len(corpus)))
    random.Random(plan.seed).shuffle(every)
    return [i for at, i in enumerate(every) if at % HELD_OUT], every[::HELD_OUT]


def _batch(order: list[int], step: int, plan: Plan) -> list[int]:
    """The sequences of one step; each epoch is another shuffle."""
    per = len(order) // plan.batch
    epoch, at = divmod(step, per)
    shuffled = order[:]
    random.Random(plan.seed * 1000 + epoch).shuffle(shuffled)
    return shuffled[at * plan.batch : (at + 1) * plan.batch]


def _schedule(step: int, total: int, warmup: int) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(total - warmup, 1)))
