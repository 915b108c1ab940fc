from __future__ import annotations

import html
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from made import EVIL, baseline_trace, rest_trace

from restviz.cli import main
from restviz.trace import Trace, TraceError
from restviz.ui.export import RUNS, export, template


def runs(page: str) -> dict:
    return json.loads(page.rsplit(".open(", 1)[1].rsplit(");", 1)[0])


def test_an_exported_page_holds_the_runs_and_no_token_is_markup():
    trace = rest_trace()
    page = export(trace, baseline_trace(trace.tokens))
    assert EVIL not in page
    assert Trace.model_validate(runs(page)["trace"]) == trace
    assert Trace.model_validate(runs(page)["baseline"]).tokens == trace.tokens
    assert runs(export(trace))["baseline"] is None
    assert template().count(RUNS) == 1


def test_command_line(tmp_path, capsys):
    trace = rest_trace()
    path, base = trace.save(tmp_path / "run.json.gz"), baseline_trace(trace.tokens).save(tmp_path / "base.json")
    assert main(["trace", "export", str(path), "--baseline", str(base)]) in (0, None)
    assert capsys.readouterr().out.strip() == str(tmp_path / "run.html")
    assert runs((tmp_path / "run.html").read_text(encoding="utf-8"))["baseline"]["header"]["method"] == "autoregressive"
    assert main(["trace", "export", str(path), "--out", str(tmp_path / "no" / "such.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_a_notebook_shows_the_player(notebook):
    trace = rest_trace()
    trace.show(height=500)
    assert "height: 500px" in notebook[0]
    assert html.unescape(notebook[0].split('srcdoc="')[1].split('" style=')[0]) == export(trace)


def test_outside_a_notebook_show_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(TraceError, match="trace export"):
        rest_trace().show()
