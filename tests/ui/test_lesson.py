"""Lessons: every number in them is of the trace, and what is not written as lessons are is refused in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restviz.cli import main
from restviz.trace import Trace
from restviz.ui.bundled import BUNDLED, METHODS, RUNS
from restviz.ui.export import PLAYER
from restviz.ui.lesson import LESSONS, POINTS, SHOWN, STEPS, LessonError, facts, lessons, read_lesson
from restviz.ui.site import write_site

LESSON = """---
title: A title
run: stack
---
## First {method=rest step=most}
{{accepted}} of {{nodes}} & <b>bold</b>; RASD: {{rasd.M}}

> Do: go on. {step=+1}

## Check
- [ ] one :: no
- [x] two :: yes
"""


@pytest.fixture
def lesson(tmp_path):
    def read(text=LESSON):
        (tmp_path / "mine.md").write_text(text)
        return read_lesson(tmp_path / "mine.md", RUNS)

    return read


def run(method, name="stack"):
    return Trace.load(RUNS / name / f"{method}.json.gz")


def test_there_are_seven_and_each_has_something_to_do_and_a_check():
    found = lessons(RUNS)
    assert len(found) == 7
    for one in found:
        assert any(page.task and page.goal for page in one.pages), one.title
        assert one.pages[-1].title == "Check"
        assert len(one.pages[-1].answers) == 3


def test_numbers_are_those_of_the_trace(lesson):
    trace = run("rest")
    step = max(trace.steps[1:], key=lambda step: len(step.accepted))
    verified = sum(fate in ("accepted", "rejected") for fate in step.nodes.fate)
    first, _ = lesson().pages
    assert f"{len(step.accepted)} of {verified} &amp;" in first.html
    assert f"RASD: {run('rasd').mean_generated_length:.2f}" in first.html
    assert first.shown == {"method": "rest", "step": step.index}
    assert first.goal == {"step": step.index + 1}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", BUNDLED)
def test_facts_are_counted_from_the_steps(name, method):
    trace, plain = run(method, name), run("autoregressive", name)
    for step in trace.steps:
        told = facts(trace, step.index, plain)
        fates = step.nodes.fate
        assert int(told["nodes"].replace(",", "")) == fates.count("accepted") + fates.count("rejected")
        assert int(told["accepted"]) + int(told["rejected"]) == int(told["nodes"])
        assert int(told["over_budget"].replace(",", "")) == fates.count("pruned_budget") + step.unrecorded
        assert int(told["emitted"]) == len(step.emitted)
    assert float(told["M"]) == pytest.approx(trace.mean_generated_length, abs=0.005)
    assert float(told["speedup"]) == pytest.approx(plain.seconds / trace.seconds, rel=0.02)


def test_steps_that_lessons_name_show_what_they_are_about():
    rest, rasd = run("rest"), run("rasd")
    at = lambda trace, name: max(trace.steps[1:], key=STEPS[name])  # noqa: E731
    bushy = facts(rest, at(rest, "bushy").index, run("autoregressive"))
    assert int(bushy["accepted"]) > 0
    assert int(bushy["rejected"]) > 3
    assert int(bushy["over_budget"].replace(",", "")) > 0
    pruned = facts(rasd, at(rasd, "pruned").index, run("autoregressive"))
    assert int(pruned["pruned"]) > 0
    assert int(pruned["tested"]) > 1
    assert int(facts(rasd, at(rasd, "fused").index, run("autoregressive"))["shared"]) > 0


def test_the_example_and_the_names_in_the_guide_are_true(lesson):
    guide = (Path(__file__).parents[2] / "docs" / "lessons.md").read_text()
    example = re.search(r"```markdown\n(.*?)```", guide, re.DOTALL)[1]
    assert len(lesson(example.replace("run: mine", "run: stack")).pages) == 2
    listed = re.search(r"that is unknown is an error\.(.*?)\n\n\*\*", guide, re.DOTALL)[1]
    assert set(re.findall(r"`(\w+)`", listed)) == set(facts(run("rest"), 1, run("autoregressive")))
    assert set(STEPS) <= set(re.findall(r"`(\w+)`", guide))
    assert set(SHOWN) <= set(re.findall(r"`(\w+)`", guide))


def test_nothing_in_a_lesson_is_markup(lesson):
    first, _ = lesson().pages
    assert "<b>" not in first.html
    assert "&lt;b&gt;" in first.html


def test_answers_have_feedback_and_one_is_right(lesson):
    _, check = lesson().pages
    assert [(answer["text"], answer["feedback"], answer["right"]) for answer in check.answers] == [
        ("one", "no", False),
        ("two", "yes", True),
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("title: A title\n", ""), "has no “title:”"),
        (("run: stack", "run: gone"), "the run gone has no autoregressive.json.gz"),
        (("## ", "# "), "has no page"),
        (("step=most", "step=best"), "the step “best” is no number and none of"),
        (("step=most", "step=999"), "and no 999"),
        (("method=rest", "method=magic"), "there is no run of magic"),
        (("step=most", "colour=red"), "“colour” is nothing that the player shows"),
        (("step=most", "most"), "“most” in braces has to be name=value"),
        (("{{nodes}}", "{{knots}}"), "there is no fact “knots”"),
        (("- [x]", "- [ ]"), "one answer has to be the right one"),
    ],
)
def test_mistakes_are_named(lesson, change, sentence):
    with pytest.raises(LessonError, match=re.escape(sentence)):
        lesson(LESSON.replace(*change))


def test_the_player_knows_everything_that_a_page_can_show():
    script = (PLAYER / "learn.js").read_text()
    names = re.search(r"\{ ([\w, ]+) \} = page.shown", script)[1]
    assert set(names.split(", ")) == set(SHOWN)


def test_a_lesson_is_exported_as_one_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["lesson", "export", sorted(LESSONS.glob("*.md"))[3].stem]) == 0
    page = (tmp_path / capsys.readouterr().out.strip()).read_text()
    assert "Every node sees its own past only" in page
    assert "src=" not in page.split("<script>RestViz.learn")[1], "nothing is fetched"
    assert main(["lesson", "export", "no such lesson"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert main(["lesson", "export", "2-guessing-from-a-corpus", "--out", "no/such.html"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_static_folder_is_small(tmp_path):
    files = write_site(tmp_path / "site")
    assert {"index.html", "player.html", "plotly.min.js"} <= {file.name for file in files}
    assert sum(file.stat().st_size for file in files if file.name != "plotly.min.js") < 6e6
    assert write_site(tmp_path / "site") == files


def test_words_point_at_what_there_is():
    names = re.search(r"const POINTS = \{(.*?)\};", (PLAYER / "learn.js").read_text(), re.DOTALL)[1]
    assert set(re.findall(r"(\w+): ", names)) | {"shared"} == set(POINTS)


def test_a_word_that_points_at_nothing_is_told(lesson):
    with pytest.raises(LessonError, match="a link cannot point at “gone”: choose from root, bonus"):
        lesson("---\ntitle: T\nrun: stack\n---\n## A {method=rest step=1}\n[x](#gone)\n")
