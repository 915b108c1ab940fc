"""The player's charts as plotly figures, for notebooks and export: a `Trace` in, a `Figure` out."""

from __future__ import annotations

from itertools import accumulate

import plotly.graph_objects as go

from restviz.trace import Trace

DATASTORE, BONUS, GREY = "#0b62c4", "#a84a00", "#5f6b78"
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


def _name(trace: Trace) -> str:
    return trace.header.method if trace.header.method == "autoregressive" else trace.header.method.upper()


def _layout(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    return figure.update_layout(
        title=title, xaxis_title=x, yaxis_title=y, barmode="stack", template="plotly_white", legend_orientation="h"
    )
