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

from restviz.bench.prompts import add_prompts, all_prompts, chosen
from restviz.datastore import LiveDatastore, vocabulary_fingerprint
from restviz.drafters import chosen_stores
from restviz.errors import RestvizError


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Add the four commands to those of `bench`."""
    from restviz.cli import add_engine_options, add_settings

    for name, run, text in (
        ("speed", _speed, "M and tokens/s of methods against autoregressive decoding, prompt by prompt"),
        ("lossless", _lossless, "how many texts equal the autoregressive ones token for token"),
        ("baseline", _baseline, "autoregressive tokens/s against transformers' generate"),
        ("attention", _attention, "time of a forward with exact and with fast attention"),
    ):
        parser = subparsers.add_parser(name, help=text)
        add_engine_options(parser)
        if name in ("speed", "lossless"):
            default = "code" if name == "speed" else "all"
            add_prompts(parser, default)
            parser.add_argument("--limit", type=int, default=20, metavar="N", help="prompts at most (default: 20)")
            add_settings(parser)
        if name == "speed":
            text = "what to measure: method[:setting=value,…], as in rasd:prune_k=5,stores=answers+live; may be several"
            parser.add_argument("--runs", nargs="+", metavar="RUN", help=text)
        parser.add_argument("--json", type=checked_json, metavar="FILE", help="also write the raw figures here")
        parser.set_defaults(run=run)


def _speed(args: argparse.Namespace) -> None:
    from restviz.cli import load_engine, settings_from

    settings = settings_from(args)
    variants = {text: _variant(settings, text) for text in args.runs or [settings.method]}
    if settings.max_new_tokens < 8:
        raise RestvizError("A speed needs some tokens to be measured: set --max-new-tokens to 8 or more.")
    engine = load_engine(args)
    live = LiveDatastore(vocabulary_fingerprint(engine.target.tokenizer.backend_tokenizer))
    if any(live.meta.name in chosen_stores(variant.stores) for variant in variants.values()):
        engine = engine.beside(live)
    prompts = chosen(args.prompts)[: args.limit]
    for variant in variants.values():
        engine.stream(prompts[0][0], variant)  # what cannot run is told before anything is measured
    width = max(map(len, variants)) + 2
    print(f"{'prompt':28} " + "".join(f"{name:>{max(width, 16)}}" for name in variants) + "   (M, tokens/s ratio)")
    rows = []
    for prompt, chat in prompts:
        base = engine.generate(prompt, settings.but(chat=chat, method="autoregressive"))
        row = {"prompt": prompt, "autoregressive": _measured(base), "variants": {}}
        for name, variant in variants.items():
            trace = engine.generate(prompt, variant.but(chat=chat))
            row["variants"][name] = _measured(trace) | {
                "ratio": trace.tokens_per_second / base.tokens_per_second,
                "identical": base.tokens == trace.tokens,
            }
        rows.append(row)
        live.add(base.header.prompt_ids + base.tokens, prompt)  # the prompts to come may search it
        cells = [f"{v['M']:.2f} {v['ratio']:5.2f}×{'' if v['identical'] else ' !'}" for v in row["variants"].values()]
        lines = [line.strip() for line in prompt.strip().splitlines()]
        title = next((line for line in lines if line.startswith("def ")), lines[-1])[:28]
        print(f"{title:28} " + "".join(f"{cell:>{max(width, 16)}}" for cell in cells), flush=True)
    summary = {
        "benchmark": "speed",
        "prompts": f"{args.prompts}, {len(rows)}",
        "max_new_tokens": settings.max_new_tokens,
        "environment": engine.target.environment.model_dump(),
        "variants": {name: _summed_up([row["variants"][name] for row in rows]) for name in variants},
    }
    for name, figures in summary["variants"].items():
        low, middle, high = figures["ratio"]
        print(
            f"{name}: M {figures['M'][1]:.2f}, {middle:.2f}× ({low:.2f} to {high:.2f}), drafting "
            f"{figures['drafting_ms']:.1f} ms a step, {figures['outside_forward']:.1%} of a step outside the forward, "
            f"{figures['identical']} of {len(rows)} texts identical"
        )
    _finish(args, summary, rows)


def _variant(settings, text: str):
    """The settings of `method[:field=value,…]`, with + for the commas of a value.  Raises SettingsError."""
    method, _, changes = text.partition(":")
    pairs = [change.partition("=") for change in changes.split(",") if change]
    return settings.but(method=method, **{name.replace("-", "_"): value.replace("+", ",") for name, _, value in pairs})


def _measured(trace) -> dict:
    """What one run says; times in ms."""
    parts = ("retrieve", "draft", "fuse")
    return {
        "M": trace.mean_generated_length,
        "tokens_per_second": trace.tokens_per_second,
        "outside_forward": _overhead(trace),
        "drafting_ms": statistics.median(sum(getattr(s.times, part) for part in parts) for s in trace.steps[1:]),
        "fuse_ms": statistics.median(step.times.fuse for step in trace.steps[1:]),
        "forward_ms": statistics.median(step.times.forward for step in trace.steps[1:]),
        "emitted": [len(step.emitted) for step in trace.steps],
        "step_ms": [step.times.model_dump() for step in trace.steps],
    }


def _summed_up(runs: list[dict]) -> dict:
    """Over the prompts: lower quartile, median and upper quartile of M and of the ratio, medians of the rest."""
    figures = {name: [round(x, 3) for x in _quartiles([run[name] for run in runs])] for name in ("M", "ratio")}
    for name in ("outside_forward", "drafting_ms", "fuse_ms", "forward_ms"):
        figures[name] = round(statistics.median(run[name] for run in runs), 3)
    return figures | {"identical": sum(run["identical"] for run in runs)}


def _quartiles(values: list[float]) -> list[float]:
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def _overhead(trace) -> float:
    """Median share of a step's wall clock that is not the target's forward."""
    return statistics.median(1 - step.times.forward / step.times.total for step in trace.steps[1:])


def _lossless(args: argparse.Namespace) -> None:
    from restviz.cli import load_engine, settings_from

    engine = load_engine(args)
    given = settings_from(args)
    rows = []
    for name, sampling in (("greedy", {"temperature": 0.0}), ("T=0.8 top-p 0.95", {"temperature": 0.8, "top_p": 0.95})):
        for prompt, chat in chosen(args.prompts)[: args.limit]:
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
