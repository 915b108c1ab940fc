from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from made import baseline_trace, rest_trace

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
