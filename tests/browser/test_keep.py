"""Keeping runs and opening them again, in a real browser: files that come out of the page, pages from disk."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pytest
from made import baseline_trace, rasd_trace, rest_trace

from restviz.trace import Trace
from restviz.ui.export import export, template


def load(page, trace, baseline=None):
    data = {"trace": trace.model_dump(mode="json"), "baseline": baseline and baseline.model_dump(mode="json")}
    page.evaluate("data => p.open(data)", data)


def kept(page, button, tmp_path):
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def choose(page, path):
    page.locator(".rv-keep input[type=file]").set_input_files(path)


@pytest.mark.parametrize("make", [rest_trace, rasd_trace])
def test_a_kept_trace_is_the_trace(player, tmp_path, make):
    trace = make()
    load(player, trace)
    path = kept(player, "Trace", tmp_path)
    assert path.name == f"restviz-{trace.header.method}-20261201000000.json.gz"
    assert Trace.load(path) == trace


def test_steps_are_a_table(player, tmp_path):
    trace = rest_trace()
    load(player, trace)
    rows = list(csv.DictReader(io.StringIO(kept(player, "Steps as CSV", tmp_path).read_bytes().decode(), newline="")))
    assert [int(row["tokens"]) for row in rows] == [len(step.emitted) for step in trace.steps]
    assert [float(row["forward ms"]) for row in rows] == pytest.approx([s.times.forward for s in trace.steps], abs=1e-3)
    assert "".join(row["text"] for row in rows).count("€") == 1


def test_the_tree_is_a_picture_of_its_own(player, tmp_path):
    load(player, rest_trace())
    player.evaluate("p.seek(2)")
    boxes = player.evaluate("p.tree.shape.boxes.length")
    svg = kept(player, "Tree as SVG", tmp_path).read_text()
    assert svg.count('class="rv-node') == boxes
    assert ".rv-node" in svg
    assert "http" not in svg.replace("http://www.w3.org/", "")
    png = kept(player, "Tree as PNG", tmp_path).read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(png) > 2000


@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_a_trace_is_opened_from_its_file(player, tmp_path, ending):
    trace = rasd_trace()
    choose(player, trace.save(tmp_path / f"kept.{ending}"))
    player.wait_for_function("p.model?.finish")
    assert player.evaluate("p.model.tokens.map(token => token.id)") == trace.tokens
    assert player.locator(".rv-from").inner_text() == f"Opened from kept.{ending}."
    assert "no baseline" in player.locator(".rv-badge").inner_text()
    assert player.locator(".rv-middle").is_visible()


def test_a_trace_of_version_1_opens(player, tmp_path):
    raw = rest_trace().model_dump(mode="json")
    raw["header"]["schema_version"] = 1
    raw["header"]["environment"]["calibration"] = {"fp32 1 row": 80.0}
    (tmp_path / "old.json").write_text(json.dumps(raw))
    choose(player, tmp_path / "old.json")
    player.wait_for_function("p.model?.finish")
    again = Trace.load(kept(player, "Trace", tmp_path))
    assert again == rest_trace()


def test_a_kept_autoregressive_run_is_a_baseline(player, tmp_path):
    choose(player, baseline_trace(rest_trace().tokens).save(tmp_path / "base.json"))
    player.wait_for_function("p.model?.finish")
    assert player.evaluate("p.role") == "baseline"
    assert "is the baseline" in player.locator(".rv-badge").inner_text()


def damaged(kind):
    raw = rest_trace().model_dump(mode="json")
    if kind == "newer":
        raw["header"]["schema_version"] = 3
    elif kind == "headless":
        del raw["header"]
    elif kind == "damaged":
        del raw["steps"][1]["nodes"]
    elif kind == "circle":
        raw["steps"][1]["nodes"]["parent"][1:3] = [2, 1]
    elif kind == "ragged":
        raw["steps"][1]["nodes"]["logp"].pop()
    elif kind == "lost":
        raw["steps"][1]["accepted"] = [999]
    elif kind == "timeless":
        raw["steps"][1]["times"] = {}
    elif kind == "nameless":
        del raw["token_text"]
    elif kind == "empty":
        raw["steps"] = []
    data = json.dumps(raw).encode()
    return {"text": b"hello", "cut": gzip.compress(data)[:-40], "newer": data}.get(kind, data)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("text", "is not a RestViz trace: it is not (gzipped) JSON or it is cut short."),
        ("cut", "is not a RestViz trace: it is not (gzipped) JSON or it is cut short."),
        ("newer", "has trace schema version 3 and this page reads version 2"),
        ("headless", "it has no header with a schema version."),
        ("damaged", "is damaged"),
        *((kind, "is damaged") for kind in ("empty", "circle", "ragged", "lost", "timeless", "nameless")),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence_and_nothing_is_lost(player, tmp_path, kind, words):
    trace = rest_trace()
    load(player, trace)
    (tmp_path / "odd.json").write_bytes(damaged(kind))
    choose(player, tmp_path / "odd.json")
    player.wait_for_selector(".rv-note[role=alert]:not([hidden])")
    assert player.locator(".rv-note[role=alert]").inner_text().startswith("odd.json ")
    assert words in player.locator(".rv-note[role=alert]").inner_text()
    assert player.evaluate("p.model.steps.length") == len(trace.steps)


def test_nothing_is_opened_over_a_run_that_is_under_way(player, tmp_path):
    trace = rest_trace()
    player.evaluate("header => p.start(header)", trace.header.model_dump(mode="json"))
    choose(player, trace.save(tmp_path / "t.json"))
    player.wait_for_selector(".rv-note[role=alert]:not([hidden])")
    assert "under way" in player.locator(".rv-note[role=alert]").inner_text()
    assert player.evaluate("p.live")
    assert player.get_by_role("button", name="Trace", exact=True).is_disabled()


@pytest.mark.parametrize("dark", [False, True])
def test_an_exported_page_opens_from_disk_without_a_network(browser, tmp_path, dark):
    trace = rasd_trace()
    (tmp_path / "run.html").write_text(export(trace, baseline_trace(trace.tokens)), encoding="utf-8")
    context = browser.new_context(offline=True, color_scheme="dark" if dark else "light")
    page, problems = context.new_page(), []
    page.on("console", lambda message: message.type == "error" and problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.startswith("file:") or problems.append(request.url))
    page.goto((tmp_path / "run.html").as_uri())
    page.wait_for_selector(".rv-badge[data-state=identical]")
    page.wait_for_function("document.querySelectorAll('.rv-plot .main-svg').length > 2")
    page.keyboard.press("ArrowRight")
    assert page.locator(".rv-where").inner_text() == "step 1 of 1"
    assert page.locator(".rv-stage").count() == 5
    assert page.evaluate("window.pwned") is None
    assert page.get_by_role("button", name="Web page").count() == 0, "a page has no server to ask for another"
    assert page.locator("#player").get_attribute("data-theme") == ("dark" if dark else "light")
    context.close()
    assert problems == []


def test_in_a_notebook_the_player_works_in_its_frame(tab, notebook):
    trace = rasd_trace()
    trace.show(baseline_trace(trace.tokens))
    tab.set_content(f"<!doctype html><main>{notebook[0]}</main>")
    frame = tab.frame_locator("iframe")
    frame.locator(".rv-badge[data-state=identical]").wait_for()
    frame.get_by_role("button", name="Step forward").click()
    assert frame.locator(".rv-where").inner_text() == "step 1 of 1"
    assert frame.locator(".rv-split .rv-tree [data-node]").count() > 1
    frame.locator(".rv-plot .main-svg").first.wait_for()


def test_the_page_exports_itself(player, tmp_path):
    trace = rest_trace()
    player.route("http://127.0.0.1:9/e.html", lambda route: route.fulfill(body=template(), content_type="text/plain"))
    player.evaluate("""() => {
        document.getElementById("host").replaceChildren();
        window.p = RestViz.createPlayer(document.getElementById("host"), { template: "http://127.0.0.1:9/e.html" });
    }""")
    other = trace.model_copy(deep=True)
    other.header.method = "pld"
    runs = [run.model_dump(mode="json") for run in (trace, baseline_trace(trace.tokens), other)]
    player.evaluate("([trace, baseline, other]) => p.open({ trace, baseline, others: [other] })", runs)
    page = kept(player, "Web page", tmp_path).read_text(encoding="utf-8")
    assert json_in(page) == json_in(export(trace, baseline_trace(trace.tokens), [other]))


def json_in(page):
    return json.loads(page.rsplit(".open(", 1)[1].rsplit(");", 1)[0])
