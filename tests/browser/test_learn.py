"""The lessons in a real browser: someone goes through all of them, on the folder that `make static` writes."""

from __future__ import annotations

import pytest
from driving import model, serious

from restviz.ui.bundled import RUNS
from restviz.ui.lesson import lessons
from restviz.ui.site import lesson_page

SOON = 30_000
RUN = 300_000  # ms: the model may have to be loaded first
WIDTHS = {"desktop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
TOLD = lessons(RUNS)


@pytest.fixture
def page(site, tab):
    tab.set_default_timeout(SOON)
    tab.goto(site + "/index.html")
    ready(tab)
    return tab


def ready(page):
    page.wait_for_function("window.RestViz?.learning?.player.model && !RestViz.learning.moving")


def here(page):
    return page.evaluate("[RestViz.learning.lesson.name, RestViz.learning.at[1]]")


def done(page):
    return page.evaluate("RestViz.learning.done.has(RestViz.learning.id(RestViz.learning.at))")


def do(page, goal):
    """What the page asks for, as a person does it."""
    if "step" in goal:
        page.locator("body").click(position={"x": 2, "y": 2})
        for _ in range(goal["step"] - page.evaluate("RestViz.learning.player.current")):
            page.keyboard.press("ArrowRight")
    if "nodes" in goal:
        page.locator("body").click(position={"x": 2, "y": 2})
        while not done(page):
            page.keyboard.press("ArrowRight")
    if "stage" in goal:
        page.locator(".rv-stage", has_text=goal["stage"].capitalize()).click()
    if "method" in goal:
        names = {"eagle": "EAGLE", "rasd": "RASD", "rest": "REST"}
        page.locator(".rv-compare tbody button", has_text=names[goal["method"]]).click()
    if "in" in goal:
        page.locator(".rv-mask").first.scroll_into_view_if_needed()
        page.locator(".rv-split .rv-matrix [data-row]").nth(2).hover()
    if "origin" in goal:
        page.get_by_role("button", name="Fit the tree").first.click()
        for node in page.locator(".rv-split .rv-tree .rv-node").all():
            if not done(page):
                node.hover()
    if "fate" in goal:
        kinds = {"accepted": "n-accepted", "rejected": "n-declined", "pruned": "n-pruned"}
        wanted = f"[class*={kinds[goal['fate']]}]" if goal["fate"] in kinds else ":not(.n-root)"
        show = page.locator(".rv-check label", has_text="pruned")
        if goal["fate"] == "pruned" and show.is_visible():
            show.click()
        page.get_by_role("button", name="Fit the tree").first.click()
        page.locator(".rv-split .rv-tree").evaluate("node => node.scrollIntoView({ block: 'center' })")
        page.locator(f".rv-split .rv-tree .rv-node{wanted}").first.hover()


@pytest.mark.parametrize("lesson", TOLD, ids=[lesson.name for lesson in TOLD])
def test_every_page_can_be_followed(page, lesson):
    page.locator(".rv-lesson-name", has_text=lesson.title).click()
    for number, told in enumerate(lesson.pages):
        ready(page)
        assert here(page) == [lesson.name, number]
        assert page.locator(".rv-page h2").inner_text() == told.title
        shown = page.evaluate("[RestViz.learning.player.model.header.method, RestViz.learning.player.current]")
        assert shown == [told.shown["method"], told.shown["step"]]
        goal = {name: value for name, value in told.goal.items() if name != "optional"}
        if goal:
            assert not done(page), "nothing was done yet"
            do(page, goal)
            page.wait_for_selector(".rv-task[data-done=true]")
        for answer, choice in zip(told.answers, page.locator(".rv-answer-choice").all(), strict=True):
            if not answer["right"]:
                choice.click()
                assert not done(page)
        if told.answers:
            page.locator(".rv-answer-choice").nth([a["right"] for a in told.answers].index(True)).click()
            assert page.locator(".rv-feedback:not([hidden])").count() == len(told.answers)
        assert done(page)
        if number + 1 < len(lesson.pages):
            page.locator(".rv-next").click()
    assert "✓ done" in page.locator(".rv-lesson-name", has_text=lesson.title).inner_text()
    page.reload()
    ready(page)
    assert "✓ done" in page.locator(".rv-lesson-name", has_text=lesson.title).inner_text(), "the browser kept it"


def test_pages_turn_across_lessons_and_have_addresses(page, site):
    first = TOLD[0]
    for _ in first.pages:
        page.locator(".rv-next").click()
    assert here(page) == [TOLD[1].name, 0]
    page.get_by_role("button", name="← Back").click()
    assert here(page) == [first.name, len(first.pages) - 1]
    page.goto(f"{site}/index.html#{TOLD[4].name}/2")
    page.wait_for_function(f"RestViz.learning.lesson.name === '{TOLD[4].name}'")
    assert here(page) == [TOLD[4].name, 1]
    page.goto(f"{site}/index.html#nothing/99")
    page.wait_for_function(f"RestViz.learning.lesson.name === '{first.name}'")


def test_presenting_with_keys(page):
    page.get_by_role("button", name="Present").click()
    size = page.locator(".rv-text").evaluate("node => parseFloat(getComputedStyle(node).fontSize)")
    assert size >= 20
    step = page.evaluate("RestViz.learning.player.current")
    page.keyboard.press("ArrowRight")
    assert here(page)[1] == 1
    page.keyboard.press("ArrowLeft")
    assert here(page)[1] == 0
    ready(page)
    assert page.evaluate("RestViz.learning.player.current") == step, "they turn pages now"
    page.keyboard.press("Escape")
    assert not page.locator(".rv-present").count()
    page.keyboard.press("ArrowRight")
    assert here(page)[1] == 0
    assert page.evaluate("RestViz.learning.player.current") == step + 1


def test_on_paper_the_text_and_the_tree_are_left(page):
    page.emulate_media(media="print")
    assert page.locator(".rv-text").is_visible()
    assert page.locator(".rv-split .rv-tree").is_visible()
    assert not page.locator(".rv-turn").first.is_visible()
    assert not page.locator(".rv-charts").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious_and_nothing_sticks_out(page, scheme, width):
    page.set_viewport_size(dict(zip(("width", "height"), WIDTHS[width], strict=True)))
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.querySelector('.rv-learn').dataset.theme === scheme", arg=scheme)
    for at in ("5-when-retrieval-is-wrong/2", "2-guessing-from-a-corpus/4"):
        page.evaluate("at => { location.hash = at; }", at)
        page.wait_for_function(
            "at => RestViz.learning.id(RestViz.learning.at) === at && !RestViz.learning.moving", arg=at
        )
        for choice in page.locator(".rv-answer-choice").all():
            choice.click()
        page.wait_for_timeout(600)  # transitions of colour
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_player_of_the_folder_opens_runs_by_link(site, tab):
    tab.goto(f"{site}/player.html?run=sky&method=eagle&step=6")
    tab.wait_for_function("document.querySelector('.rv-where')?.innerText.startsWith('step 6 of')")
    assert tab.locator("h2", has_text="Answer (EAGLE)").is_visible()
    assert tab.locator(".rv-compare tbody tr").count() == 5
    tab.goto(f"{site}/player.html?run=gone")
    tab.wait_for_selector(".rv-note[role=alert]:has-text('There is no recorded run “gone” here')")


def test_an_exported_lesson_needs_no_network(tab, tmp_path):
    (tmp_path / "lesson.html").write_text(lesson_page(TOLD[1]), encoding="utf-8")
    tab.context.set_offline(True)
    tab.goto((tmp_path / "lesson.html").as_uri())
    tab.wait_for_selector(".rv-split .rv-tree [data-node]")
    assert tab.locator(".rv-lesson-name").count() == 1
    tab.locator(".rv-next").click()
    assert tab.locator(".rv-page h2").inner_text() == TOLD[1].pages[1].title
    assert tab.get_by_text("Try it live").is_hidden()


@pytest.fixture
def inside(app, tab):
    """The app, at the lesson that a link names."""
    tab.set_default_timeout(SOON)
    tab.goto(app.url + "/#5-when-retrieval-is-wrong/3")
    ready(tab)
    return tab


def test_in_the_app_lessons_are_a_tab_where_what_if_answers(inside):
    assert inside.get_by_role("tab", name="Learn").get_attribute("aria-selected") == "true"
    assert here(inside) == ["5-when-retrieval-is-wrong", 2]
    inside.wait_for_selector("#rv-learn .rv-told strong", timeout=RUN)
    inside.locator("#rv-learn").get_by_label("k, first tokens that stay").fill("1")
    inside.wait_for_function("/it was \\d/.test(document.querySelector('#rv-learn .rv-told').innerText)", timeout=RUN)


def test_a_node_of_a_lesson_says_where_it_is_from(inside):
    inside.wait_for_selector("#rv-learn .rv-told strong", timeout=RUN)
    player = "RestViz.learning.player"
    inside.evaluate(f"{player}.pointNode({player}.model.steps[{player}.current].nodes.source.findIndex(f => f & 1))")
    inside.wait_for_selector("#rv-learn .rv-places mark", timeout=SOON)


def test_try_it_live_fills_the_form_with_what_the_lesson_shows(inside):
    asked = inside.evaluate("RestViz.learning.player.model.header")
    inside.get_by_text("Try it live").click()
    inside.wait_for_function("document.querySelector('#rv-method input')?.value === 'RASD'")  # it was REST
    assert inside.get_by_role("tab", name="Studio").get_attribute("aria-selected") == "true"
    assert inside.locator("#rv-prompt textarea").input_value() == asked["prompt"]
    inside.wait_for_function("RestViz.player")
    assert model(inside, "p.model") is None, "what is to be run is not covered by a recorded run"


def test_keys_step_the_player_of_the_open_tab_only(inside):
    inside.get_by_role("tab", name="Studio").click()
    inside.wait_for_function("RestViz.player.model")
    inside.evaluate("document.activeElement.blur()")
    both = "[RestViz.player.current, RestViz.learning.player.current]"
    before = inside.evaluate(both)
    inside.keyboard.press("ArrowRight")
    assert inside.evaluate(both) == [before[0] + 1, before[1]]
    inside.get_by_role("tab", name="Learn").click()
    inside.evaluate("document.activeElement.blur()")
    inside.keyboard.press("ArrowRight")
    assert inside.evaluate(both) == [before[0] + 1, before[1] + 1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing_serious_in_the_app(inside, width, theme):
    inside.set_viewport_size(dict(zip(("width", "height"), WIDTHS[width], strict=True)))
    inside.evaluate("dark => document.body.classList.toggle('dark', dark)", theme == "dark")
    inside.wait_for_function("theme => document.querySelector('.rv-learn').dataset.theme === theme", arg=theme)
    inside.wait_for_selector("#rv-learn .rv-told strong", timeout=RUN)
    inside.wait_for_timeout(600)  # transitions of colour
    assert serious(inside) == []
    assert inside.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_words_and_picture_point_at_each_other(page):
    page.goto(page.url.split("#")[0] + "#4-one-pass-for-a-whole-tree/2")
    ready(page)
    word = lambda name: page.locator(".rv-word", has_text=name)  # noqa: E731
    player = "RestViz.learning.player"
    for name, node in (("accepted", f"{player}.model.steps[{player}.current].accepted[0]"), ("bonus", "-1")):
        word(name).hover()
        page.wait_for_function(f"{player}.tree.selected === {node}")
        assert "rv-lit" in word(name).get_attribute("class")
    assert "rv-lit" not in word("accepted").get_attribute("class")
    page.evaluate(f"{player}.pointNode({player}.model.steps[{player}.current].accepted[1])")
    assert "rv-lit" in word("accepted").get_attribute("class")
    word("beside the path").focus()
    assert page.locator(".rv-split .rv-inspector").inner_text().count("rejected")
