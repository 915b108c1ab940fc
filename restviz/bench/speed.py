"""`restviz bench speed | lossless | baseline | attention`: measurements that need the model.

Each compares A and B interleaved in one run and reports medians and ratios, since a machine's speed drifts.  Each
prints a table and ends with one line of JSON; `--json FILE` keeps the raw times.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from restviz.bench.prompts import all_prompts, chosen
from restviz.errors import RestvizError


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the four commands to those of `bench`."""
    from restviz.cli import add_engine_options, add_settings

    for name, run, text in (
        ("speed", _speed, "M and tokens/s of REST against autoregressive decoding, prompt by prompt"),
        ("lossless", _lossless, "how many texts equal the autoregressive ones token for token"),
        ("baseline", _baseline, "autoregressive tokens/s against transformers' generate"),
        ("attention", _attention, "time of a forward with exact and with fast attention"),
    ):
        parser = subparsers.add_parser(name, help=text)
        add_engine_options(parser)
        if name in ("speed", "lossless"):
            default = "code" if name == "speed" else "all"
            parser.add_argument("--prompts", choices=("code", "questions", "all"), default=default)
            add_settings(parser)
        parser.add_argument("--json", type=checked_json, metavar="FILE", help="also write the raw figures here")
        parser.set_defaults(run=run)


def _speed(args: argparse.Namespace) -> None:
    from restviz.cli import load_engine, settings_from

    engine = load_engine(args)
    settings = settings_from(args)
    if settings.max_new_tokens < 8:
        raise RestvizError("A speed needs some tokens to be measured: set --max-new-tokens to 8 or more.")
    rows = []
    print(f"{'prompt':32} {'M':>5} {'AR tok/s':>9} {settings.method + ' tok/s':>12} {'ratio':>6}  same text")
    for prompt, chat in chosen(args.prompts):
        plain = settings.but(chat=chat, method="autoregressive")
        ours = settings.but(chat=chat)
        traces = [engine.generate(prompt, which) for which in (plain, ours)]
        base, trace = traces
        ratio = trace.tokens_per_second / base.tokens_per_second
        rows.append(
            {
                "prompt": prompt,
                "M": trace.mean_generated_length,
                "ratio": ratio,
                "identical": base.tokens == trace.tokens,
                "autoregressive_tokens_per_second": base.tokens_per_second,
                "tokens_per_second": trace.tokens_per_second,
                "overhead": _overhead(trace),
                "step_ms": {t.header.method: [step.times.model_dump() for step in t.steps] for t in traces},
                "emitted": {t.header.method: [len(step.emitted) for step in t.steps] for t in traces},
            }
        )
        print(
            f"{prompt.strip().splitlines()[-1].strip()[:32]:32} {trace.mean_generated_length:5.2f} "
            f"{base.tokens_per_second:9.2f} {trace.tokens_per_second:12.2f} {ratio:6.2f}  "
            f"{'yes' if rows[-1]['identical'] else 'NO'}",
            flush=True,
        )
    summary = {
        "benchmark": "speed",
        "method": settings.method,
        "budget": settings.budget,
        "environment": engine.target.environment.model_dump(),
        "prompts": len(rows),
        "M_median": statistics.median(row["M"] for row in rows),
        "ratio_median": statistics.median(row["ratio"] for row in rows),
        "ratio_min": min(row["ratio"] for row in rows),
        "ratio_max": max(row["ratio"] for row in rows),
        "identical": sum(row["identical"] for row in rows),
        "outside_forward": statistics.median(row["overhead"] for row in rows),
    }
    _finish(args, summary, rows)


def _overhead(trace) -> float:
    """Median share of a step's wall clock that is not the target's forward."""
    return statistics.median(1 - step.times.forward / step.times.total for step in trace.steps[1:])


def _lossless(args: argparse.Namespace) -> None:
    from restviz.cli import load_engine, settings_from

    engine = load_engine(args)
    given = settings_from(args)
    rows = []
    for name, sampling in (("greedy", {"temperature": 0.0}), ("T=0.8 top-p 0.95", {"temperature": 0.8, "top_p": 0.95})):
        for prompt, chat in chosen(args.prompts):
            settings = given.but(chat=chat, **sampling)
            base = engine.generate(prompt, settings.but(method="autoregressive"))
            trace = engine.generate(prompt, settings)
            same = base.tokens == trace.tokens
            rows.append({"prompt": prompt, "sampling": name, "identical": same, "tokens": len(trace.tokens)})
        of = [row for row in rows if row["sampling"] == name]
        print(f"{name:18} identical {sum(row['identical'] for row in of)} of {len(of)}", flush=True)
    summary = {
        "benchmark": "lossless",
        "environment": engine.target.environment.model_dump(),
        "identical": sum(row["identical"] for row in rows),
        "texts": len(rows),
    }
    _finish(args, summary, rows)


def _baseline(args: argparse.Namespace) -> None:
    import torch

    from restviz.api import Settings
    from restviz.cli import load_engine
    from restviz.target.build import load_plain

    engine = load_engine(args)
    stock = load_plain(args.target, engine.target.environment.dtype, engine.target.environment.device)
    settings = Settings(method="autoregressive")

    def ours(prompt: str, chat: bool) -> int:
        return len(engine.generate(prompt, settings.but(chat=chat)).tokens)

    def theirs(prompt: str, chat: bool) -> int:
        ids = engine.target.encode(prompt, chat)
        with torch.inference_mode():
            tokens = torch.tensor([ids], device=stock.device)
            output = stock.generate(
                tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=settings.max_new_tokens, do_sample=False
            )
        return output.shape[1] - len(ids)

    rows = []
    for number, (prompt, chat) in enumerate([*all_prompts()[:1], *all_prompts()[::3]]):
        speed = {}
        for run in (ours, theirs) if number % 2 else (theirs, ours):
            start = time.perf_counter()
            tokens = run(prompt, chat)
            speed[run.__name__] = tokens / (time.perf_counter() - start)
        if number:  # the first pair warms both up
            rows.append({**speed, "prompt": prompt})
            print("RestViz {ours:6.2f} tokens/s   transformers {theirs:6.2f} tokens/s".format(**speed), flush=True)
    summary = {
        "benchmark": "baseline",
        "environment": engine.target.environment.model_dump(),
        "ratio_median": statistics.median(row["ours"] / row["theirs"] for row in rows),
        "pairs": len(rows),
    }
    _finish(args, summary, rows)


def _attention(args: argparse.Namespace) -> None:
    from restviz.target.build import load_target
    from restviz.target.probe import time_forwards

    dtype = "bf16" if args.dtype == "auto" else args.dtype
    targets = {name: load_target.__wrapped__(args.target, args.device, dtype, name) for name in ("fast", "exact")}
    rows, widths = [], (1, 16, 32, 64)
    print(f"{'context':>8} {'rows':>5} {'fast ms':>9} {'exact ms':>9} {'ratio':>6}")
    for context in (250, 1000, 4000):
        times: dict[str, dict[int, list[float]]] = {name: {n: [] for n in widths} for name in targets}
        for _ in range(3):
            for name, target in targets.items():
                for n, ms in time_forwards(target, widths, context).items():
                    times[name][n].append(ms)
        for n in widths:
            fast, exact = (statistics.median(times[name][n]) for name in ("fast", "exact"))
            rows.append({"context": context, "rows": n, "fast_ms": fast, "exact_ms": exact})
            print(f"{context:8} {n:5} {fast:9.1f} {exact:9.1f} {exact / fast:6.2f}", flush=True)
    summary = {"benchmark": "attention", "environment": targets["exact"].environment.model_dump(), "rows": rows}
    _finish(args, summary, rows)


def checked_json(path: str) -> Path:
    """The argument of --json, refused before a long measurement rather than after it."""
    if not Path(path).resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder of {path} does not exist")
    return Path(path)


def _finish(args: argparse.Namespace, summary: dict, rows: list[dict]) -> None:
    if args.json:
        args.json.write_text(json.dumps({**summary, "rows": rows}) + "\n", encoding="utf-8")
    print(json.dumps(summary))
