from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from made import baseline_trace, rasd_trace, rest_trace

from restviz.ui import figures


def test_figures_hold_the_trace():
    trace = rest_trace()
    baseline = baseline_trace(trace.tokens)
    race = figures.tokens_over_time(trace, baseline)
    assert [line.name for line in race.data] == ["REST", "autoregressive"]
    assert race.data[0].y[-1] == race.data[1].y[-1] == len(trace.tokens) - 1
    assert race.data[0].x[-1] == pytest.approx(trace.seconds)
    tokens = figures.tokens_per_step(trace)
    assert [a + b for a, b in zip(*(bar.y for bar in tokens.data), strict=True)] == [
        len(s.emitted) for s in trace.steps
    ]
    times = figures.time_per_step(trace)
    assert [bar.name for bar in times.data] == ["forward", "retrieve", "accept", "other"]
    assert sum(map(sum, (bar.y for bar in times.data))) / 1000 == pytest.approx(trace.seconds)


def test_figures_of_a_whole_run_hold_the_trace():
    trace = rest_trace()
    sizes = figures.tokens_of_a_step(trace).data[0]
    assert sum(sizes.y) == trace.forwards
    assert sum(x * y for x, y in zip(sizes.x, sizes.y, strict=True)) == len(trace.tokens) - 1
    trace.header.environment.forward_ms = {8: 30.0, 1: 20.0}
    curve, points = figures.forward_cost(trace).data
    assert (curve.x, curve.y) == ((1, 8), (20.0, 30.0))
    assert points.y == tuple(step.times.forward for step in trace.steps[1:])


@pytest.mark.parametrize("trace", [rest_trace(), rasd_trace()])
def test_acceptance_by_depth_counts_every_accepted_token_once(trace):
    figure = figures.accepted_by_depth(trace)
    accepted = sum(len(step.accepted) for step in trace.steps[1:])
    assert sum(map(sum, (bar.y for bar in figure.data))) * trace.forwards == pytest.approx(accepted)


def test_speeds_are_medians_with_their_spread():
    runs = [rest_trace(), rest_trace(), rest_trace(), rasd_trace()]
    for run, factor in zip(runs, (1, 2, 4, 1), strict=True):
        for step in run.steps:
            step.times.forward *= factor
    bar = figures.speeds(runs).data[0]
    assert bar.x == ("REST", "RASD")
    assert bar.y[0] == pytest.approx(runs[1].tokens_per_second)
    assert bar.y[0] + bar.error_y.array[0] == pytest.approx(runs[0].tokens_per_second)
    assert bar.y[0] - bar.error_y.arrayminus[0] == pytest.approx(runs[2].tokens_per_second)
