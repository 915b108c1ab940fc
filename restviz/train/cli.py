"""`python -m restviz train-head` and `datastore distil`."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from restviz.errors import RestvizError


def add_distil(subparsers: argparse._SubParsersAction) -> None:
    """Add `distil` to the commands of `datastore`."""
    parser = subparsers.add_parser("distil", help="let a target answer prompts: text for a datastore that matches it")
    parser.add_argument("--target", default="default", help="default, a hub id, or a model folder or GGUF file")
    parser.add_argument(
        "--prompts", type=Path, metavar="FILE", help="JSON lines with a “prompt” each (default: RestViz's own mix)"
    )
    parser.add_argument("--tokens", type=int, default=250_000, metavar="N", help="how many (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("answers.jsonl"), metavar="FILE", help="(default %(default)s)")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="answers at a time (default %(default)s)")
    parser.add_argument("--longest", type=int, default=224, metavar="N", help="tokens an answer (default %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy, the default")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the prompts' order, and of sampling")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    parser.set_defaults(run=_distil)


def add_train_head(subparsers: argparse._SubParsersAction) -> None:
    """Add the command `train-head`."""
    from restviz.train.plan import Plan

    parser = subparsers.add_parser("train-head", help="train an EAGLE head for a target")
    parser.add_argument("--target", default="default", help="default, a hub id, or a model folder or GGUF file")
    parser.add_argument(
        "--text",
        action="append",
        metavar="NAME[:TOKENS]",
        help="text to train on, and how many tokens of it: a JSON-lines file of answers (see “datastore distil”), a "
        "recipe, or wikipedia; may repeat (default: answers, python-code:400000, wikipedia:200000)",
    )
    parser.add_argument("--vocabulary", type=int, default=8192, metavar="N", help="draft tokens (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("head"), metavar="DIR", help="(default %(default)s)")
    parser.add_argument(
        "--start", default="", metavar="DIR", help="a head of this command to start from, instead of random weights"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    for field in fields(Plan):
        kind = type(field.default)
        parser.add_argument(f"--{field.name}", type=kind, default=field.default, help="(default %(default)s)")
    parser.set_defaults(run=_train)


def _distil(args: argparse.Namespace) -> None:
    from dataclasses import asdict

    from restviz.train.distil import distil, read_records
    from restviz.train.prompts import mixed_prompts

    if min(args.tokens, args.batch, args.longest) < 1 or args.temperature < 0:
        raise RestvizError("tokens, batch and longest must be at least 1, and the temperature not negative.")
    if args.prompts:
        answered = ("answer", "tokens", "target")
        prompts = [{k: v for k, v in record.items() if k not in answered} for record in read_records(args.prompts)]
    else:
        prompts = [asdict(prompt) for prompt in mixed_prompts(args.seed)]
    have = distil(
        args.target,
        prompts,
        args.out,
        args.tokens,
        batch=args.batch,
        longest=args.longest,
        temperature=args.temperature,
        seed=args.seed,
        device=args.device,
    )
    print(f"{args.out}: {have:,} tokens of answers")
    if have < args.tokens:
        print(f"All {len(prompts):,} prompts are answered: give more prompts for more tokens.")


def _train(args: argparse.Namespace) -> None:
    import torch

    from restviz.drafters.eagle import load_head
    from restviz.target.build import load_batched
    from restviz.target.load import pretrained_tokenizer, resolve
    from restviz.train import features, head
    from restviz.train.plan import Plan

    plan = Plan(**{field.name: getattr(args, field.name) for field in fields(Plan)})
    texts = dict(map(_text, args.text or [str(features.ANSWERS), "python-code:400000", "wikipedia:200000"]))
    if missing := [name for name in texts if ".jsonl" in name and not Path(name).is_file()]:
        raise RestvizError(f"There is no file {missing[0]} to train on.")
    torch.manual_seed(plan.seed)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RestvizError(f"{args.out} cannot be made a folder ({error.strerror}): choose another --out.") from error
    source = resolve(args.target)
    tokenizer = pretrained_tokenizer(source.folder)
    model = load_batched(args.target, args.device)
    data = [features.collect(args.out / "data", *text, tokenizer, model, plan.seed) for text in texts.items()]
    corpus = features.Corpus(data)
    text = model.config.get_text_config()
    own = model.get_output_embeddings().weight
    if args.start:
        start = load_head(args.start, model, source.name)
        if start.ids is None or start.net.eagle3 or start.net.fc.bias is None:
            raise RestvizError(f"--start {args.start}: training goes on from heads that train-head made only.")
        net, ids = start.net.float(), start.ids
    else:
        ids = head.frequent(corpus.tokens, own.shape[0], args.vocabulary)
        net = head.new_head(text, len(ids))
    net = net.to(own.device).requires_grad_(True)

    def save(figures: dict) -> None:
        head.write_head(args.out, net, ids, {"target": source.name, "texts": texts, **figures})

    embedding = model.get_input_embeddings().weight
    about = {"target": source.name, "texts": texts, "start": args.start, "ids": ids.tolist()}
    rows = own[torch.from_numpy(ids).to(own.device)]
    figures = head.train(corpus, net, embedding, rows, plan, args.out, save, about=about)
    steps = ", ".join(f"step {i}" for i in range(1, plan.steps + 1))
    print(f"Agreement with the target on held-out text ({steps}; last: among the ten likeliest of step 1):")
    for name, shares in figures["held_out"].items():
        print(f"  {name}: {', '.join(map(str, shares))}")
    print(f"The head is in {args.out}: python -m restviz generate PROMPT --method eagle --head {args.out}")


def _text(value: str) -> tuple[str, int]:
    name, _, tokens = value.rpartition(":")
    return (name, int(tokens)) if name and tokens.isdigit() else (value, 10**12)
