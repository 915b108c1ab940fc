"""`restviz bench head`: how often an EAGLE head agrees with its target, along the target's own greedy answers."""

from __future__ import annotations

import argparse
import json

from restviz.bench.prompts import add_prompts, chosen
from restviz.bench.speed import checked_json
from restviz.errors import RestvizError

STEPS = 3


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the command to those of `bench`."""
    from restviz.cli import add_engine_options, add_settings

    parser = subparsers.add_parser("head", help="how often the EAGLE head agrees with the target")
    add_engine_options(parser)
    add_prompts(parser, "humaneval")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="prompts at most (default: %(default)s)")
    add_settings(parser)
    parser.add_argument("--json", type=checked_json, metavar="FILE", help="also write the figures here")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> None:
    import torch

    from restviz.cli import load_engine, settings_from

    engine, settings = load_engine(args), settings_from(args).but(method="autoregressive")
    if engine.head is None:
        raise RestvizError(f"There is no EAGLE head for {engine.target.info.name}: name one with --head.")
    if engine.head.net.eagle3:
        raise RestvizError("bench head measures heads that read one feature vector a token: EAGLE-1 and -2.")
    sums, count = torch.zeros(STEPS + 1), 0
    for prompt, chat in chosen(args.prompts)[: args.limit]:
        trace = engine.generate(prompt, settings.but(chat=chat))
        agreed = agreement(engine, trace.header.prompt_ids, trace.tokens)
        sums += agreed.float().sum(0)
        count += len(agreed)
    if not count:
        raise RestvizError("The answers are too short to be measured: set --max-new-tokens higher.")
    shares = [round(x, 4) for x in (sums / count).tolist()]
    names = ["first token, top 1", "first token, top 10", *(f"step {i}, top 1" for i in range(2, STEPS + 1))]
    figures = dict(zip(names, shares, strict=True))
    for name, share in figures.items():
        print(f"{name:22} {share:.3f}")
    summary = {"benchmark": "head", "prompts": args.prompts, "positions": count, **figures}
    if args.json:
        args.json.write_text(json.dumps(summary) + "\n", encoding="utf-8")
    print(json.dumps(summary))


def agreement(engine, prompt: list[int], tokens: list[int]):
    """bool[n, STEPS + 1] for the answer's positions: the head's first choice is the target's, that is among the head's
    ten likeliest, and its later steps' first choices, on its own features, are the target's."""
    import torch
    from torch.nn import functional as F

    from restviz.train.head import unroll

    head, target = engine.head, engine.target
    ids = [*prompt, *tokens]
    session = target.session(len(ids), head.taps)
    with torch.inference_mode():
        session.prefill(ids)
        features = session.hidden[None]
        best = F.linear(features[0], target.model.get_output_embeddings().weight).argmax(-1)
        names = torch.arange(len(head.lm_head)) if head.ids is None else torch.from_numpy(head.ids)
        hidden = list(unroll(head.net, head.embedding, torch.tensor([ids]).to(features.device), features, STEPS))
        # index i of step j predicts the target's choice after token i + j; every root in the answer is at i + 1
        columns, at = [], torch.arange(len(prompt) - 1, len(ids) - STEPS - 1)
        for step, states in enumerate(hidden, 1):
            logits = F.linear(states[0, at], head.lm_head)
            wanted = best[at + step][:, None].cpu()
            columns.append((names[logits.topk(1).indices.cpu()] == wanted).any(-1))
            if step == 1:
                columns.append((names[logits.topk(10).indices.cpu()] == wanted).any(-1))
    session.release()
    return torch.stack(columns, dim=1)
