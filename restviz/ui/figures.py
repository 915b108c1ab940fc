"""The player's charts as plotly figures, for notebooks and export: a `Trace` in, a `Figure` out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from statistics import median

import plotly.graph_objects as go

from restviz.trace import Trace
from restviz.tree import Source

DATASTORE, BONUS, GREY = "#0b62c4", "#a84a00", "#5f6b78"
ORIGINS = {  # colour and pattern of where an accepted token was drafted
    "datastore": (DATASTORE, ""),
    "text itself": ("#0f766e", "/"),
    "draft model": ("#7c3aad", "x"),
    "several": ("#b0256d", "+"),
}
FLAGS = dict(zip((Source.DATASTORE, Source.CONTEXT, Source.MODEL), ORIGINS, strict=False))
PARTS = {  # colour and pattern of each part of a step's time
    "forward": ("#8597ab", ""),
    "retrieve": (DATASTORE, "/"),
    "draft": ("#7c3aad", "x"),
    "fuse": ("#0f766e", "+"),
    "accept": (BONUS, "\\"),
    "other": (GREY, "."),
}


def tokens_over_time(trace: Trace, baseline: Trace | None = None) -> go.Figure:
    """Tokens against seconds of decoding; the prefill and its token are not counted."""
    figure = go.Figure()
    for run, colour, dash in ((trace, DATASTORE, "solid"), (baseline, GREY, "dash")):
        if run is None:
            continue
        steps = run.steps[1:]
        figure.add_scatter(
            x=[0, *accumulate(step.times.total / 1000 for step in steps)],
            y=[0, *accumulate(len(step.emitted) for step in steps)],
            name=_name(run),
            mode="lines",
            line={"color": colour, "dash": dash, "width": 2.5},
            hovertemplate="%{y} tokens after %{x:.2f} s",
        )
    return _layout(figure, "Tokens over time (prefill not counted)", "seconds", "tokens")


def tokens_per_step(trace: Trace) -> go.Figure:
    """Tokens that each step added: accepted from the draft, and the target's own."""
    figure = go.Figure()
    x = [step.index for step in trace.steps]
    figure.add_bar(x=x, y=[len(step.accepted) for step in trace.steps], name="accepted", marker_color=DATASTORE)
    figure.add_bar(
        x=x,
        y=[int(step.bonus is not None) for step in trace.steps],
        name="target's own",
        marker={"color": BONUS, "pattern": {"shape": "/", "fillmode": "overlay", "fgcolor": "white"}},
    )
    title = f"Tokens per step (M = {trace.mean_generated_length:.2f} tokens per forward, prefill not counted)"
    return _layout(figure, title, "step", "tokens")


def time_per_step(trace: Trace) -> go.Figure:
    """Where the milliseconds of each step go; the prefill, step 0, is left out."""
    figure = go.Figure()
    steps = trace.steps[1:]
    for part, (colour, pattern) in PARTS.items():
        y = [getattr(step.times, part) for step in steps]
        if not any(y):
            continue
        marker = {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "white"}}
        figure.add_bar(x=[step.index for step in steps], y=y, name=part, marker=marker, hovertemplate="%{y:.2f} ms")
    return _layout(figure, "Time per step (prefill not shown)", "step", "milliseconds")


def tokens_of_a_step(trace: Trace) -> go.Figure:
    """Histogram: how many steps added 1, 2, … tokens; the prefill is left out."""
    sizes = Counter(len(step.emitted) for step in trace.steps[1:])
    x = list(range(1, max(sizes, default=1) + 1))
    figure = go.Figure()
    figure.add_bar(x=x, y=[sizes[n] for n in x], name="steps", marker_color=DATASTORE)
    return _layout(figure, "How many tokens a step gives (prefill not counted)", "tokens of a step", "steps")


def accepted_by_depth(trace: Trace) -> go.Figure:
    """For each depth of the draft tree the share of steps whose token there was accepted, by the token's origin."""
    steps = trace.steps[1:]
    origins = [[_origin(step.origin(node)) for node in step.accepted] for step in steps]
    x = list(range(1, max(map(len, origins), default=0) + 1))
    figure = go.Figure()
    for origin, (colour, pattern) in ORIGINS.items():
        y = [sum(path[depth - 1 : depth] == [origin] for path in origins) / len(steps) for depth in x]
        if any(y):
            marker = {"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "white"}}
            figure.add_bar(x=x, y=y, name=origin, marker=marker)
    figure.update_yaxes(tickformat=".0%")
    return _layout(figure, "Accepted by depth (prefill not counted)", "tokens ahead", "share of steps")


def forward_cost(trace: Trace) -> go.Figure:
    """Milliseconds of each forward by its rows (drafted nodes and the root), and the curve measured at load."""
    steps = trace.steps[1:]
    rows = [sum(not fate.startswith("pruned") for fate in step.nodes.fate) for step in steps]
    curve = sorted(trace.header.environment.forward_ms.items())
    figure = go.Figure()
    figure.add_scatter(
        x=[n for n, _ in curve],
        y=[ms for _, ms in curve],
        name="measured at load",
        line={"color": GREY, "dash": "dash"},
    )
    figure.add_scatter(
        x=rows, y=[step.times.forward for step in steps], name="this run", mode="markers", marker_color=DATASTORE
    )
    return _layout(figure, "What a forward costs", "rows: drafted nodes and the root", "milliseconds")


def speeds(runs: Iterable[Trace]) -> go.Figure:
    """Tokens per second of each method, median of its runs, with a line from the slowest to the fastest."""
    of: dict[str, list[float]] = {}
    for run in runs:
        of.setdefault(_name(run), []).append(run.tokens_per_second)
    middle = {name: median(each) for name, each in of.items()}
    spread = {
        "symmetric": False,
        "array": [max(each) - middle[name] for name, each in of.items()],
        "arrayminus": [middle[name] - min(each) for name, each in of.items()],
    }
    figure = go.Figure()
    figure.add_bar(x=list(middle), y=list(middle.values()), error_y=spread, name="median", marker_color=DATASTORE)
    return _layout(figure, "Speed (prefill not counted)", "method", "tokens per second")


def _origin(flags: int) -> str:
    kinds = [kind for flag, kind in FLAGS.items() if flags & flag]
    return kinds[0] if len(kinds) == 1 else "several"


def _name(trace: Trace) -> str:
    return trace.header.method if trace.header.method == "autoregressive" else trace.header.method.upper()


def _layout(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    return figure.update_layout(
        title=title, xaxis_title=x, yaxis_title=y, barmode="stack", template="plotly_white", legend_orientation="h"
    )
