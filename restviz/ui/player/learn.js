/* Lessons beside the player: learn(host, {lessons, runs, plotly, isDark, live, whatIf, fields, places}).

   lessons    what restviz/ui/lesson.py makes of the Markdown files
   runs(name) resolves to {method: trace} of a recorded run
   live       the address of the page that runs a model, for “Try it live”; null where there is none

   A page says what the player shows, and perhaps something to do; once that was done it is ticked.  Nothing is locked:
   every page can be gone to at any time.  What was done is kept in the browser. */
(function (RestViz) {
  "use strict";
  const { el } = RestViz;

  const KEPT = "restviz-lessons";

  /** What was done before, by page: kept in the browser where it allows that. */
  const kept = {
    load() { try { return new Set(JSON.parse(localStorage.getItem(KEPT)) ?? []); } catch { return new Set(); } },
    save(done) { try { localStorage.setItem(KEPT, JSON.stringify([...done])); } catch { /* private window: not kept */ } },
  };

  /** What a link in the text of a page points at, `[a rejected node](#rejected)`: is a node one of them? */
  const POINTS = {
    root: (step, node) => node === 0, bonus: (step, node) => node === -1,
    accepted: (step, node) => step.accepted.includes(node), rejected: (step, node) => RestViz.fate(step, node) === "declined",
    pruned: (step, node) => RestViz.fate(step, node).startsWith("pruned"),
    drafted: (step, node) => Boolean(RestViz.source(step, node) & RestViz.MODEL), shared: both,
  };

  /** Whether retrieval and the draft model both proposed a node. */
  function both(step, node) {
    const flags = RestViz.source(step, node);
    return Boolean(flags & RestViz.MODEL) && Boolean(flags & (RestViz.DATASTORE | RestViz.CONTEXT));
  }

  const is = (step, name, node) => (["root", "bonus"].includes(name) || node > 0) && POINTS[name](step, node);

  class Learn {
    constructor(host, { lessons, runs, live = null, isDark = null, ...options }) {
      Object.assign(this, { host, lessons, runs, live, done: kept.load(), traces: new Map() });
      host.classList.add("rv", "rv-learn");
      this.list = el("ol", { class: "rv-lessons" });
      this.title = el("h2", { class: "rv-title", tabindex: -1 });
      this.text = el("div", { class: "rv-text" });
      this.task = el("div", { class: "rv-task", role: "status" });
      this.answers = el("div", { class: "rv-answers" });
      this.back = el("button", { type: "button", class: "rv-button", text: "← Back", on: { click: () => this.turn(-1) } });
      this.next = el("button", { type: "button", class: "rv-button rv-next", on: { click: () => this.turn(1) } });
      this.where = el("span", { class: "rv-small" });
      this.try = el("a", { class: "rv-button", text: "Try it live", hidden: !live });
      this.present = el("button", { type: "button", class: "rv-button", "aria-pressed": "false", text: "Present", title: "Large type for a projector; ← and → turn the pages, Esc ends it", on: { click: () => this.presenting(!this.isPresenting) } });
      const stage = el("div", { class: "rv-beside" }), player = el("div");
      stage.append(player);
      host.replaceChildren(
        el("nav", { "aria-label": "Lessons" }, this.list),
        el("div", { class: "rv-lesson" },
          el("article", { class: "rv-page", "aria-label": "Lesson" }, this.title, this.text, this.task, this.answers,
            el("div", { class: "rv-turn" }, this.back, this.where, this.next), el("div", { class: "rv-turn" }, this.try, this.present)),
          stage));
      this.player = RestViz.createPlayer(player, { ...options, isDark, watch: (node, where) => this.watch(node, where) });
      new MutationObserver(() => { host.dataset.theme = player.dataset.theme; }).observe(player, { attributes: true, attributeFilter: ["data-theme"] });
      host.dataset.theme = player.dataset.theme;
      document.addEventListener("keydown", (event) => this.key(event), true); // before the player, which steps with the same keys
      addEventListener("hashchange", () => this.hash());
      this.hash();
    }

    get lesson() { return this.lessons[this.at[0]]; }
    get page() { return this.lesson.pages[this.at[1]]; }
    id([lesson, page]) { return `${this.lessons[lesson].name}/${page + 1}`; }

    /** The address says which page: #lesson/page. */
    hash() {
      const [name, page] = decodeURIComponent(location.hash.slice(1)).split("/"), i = Math.max(0, this.lessons.findIndex((one) => one.name === name));
      const n = Math.min(this.lessons[i].pages.length, Math.max(1, Number.parseInt(page, 10) || 1));
      if (!this.at || this.id(this.at) !== this.id([i, n - 1])) this.go(i, n - 1);
    }

    turn(by) {
      let [lesson, page] = this.at;
      page += by;
      if (page < 0 && lesson > 0) page = this.lessons[--lesson].pages.length - 1;
      else if (page >= this.lesson.pages.length && lesson + 1 < this.lessons.length) [lesson, page] = [lesson + 1, 0];
      if (this.lessons[lesson].pages[page]) this.go(lesson, page, true);
    }

    async go(lesson, page, focus = false) {
      this.at = [lesson, page];
      const { title, html, task, goal, answers } = this.page, n = this.lesson.pages.length;
      history.replaceState(null, "", "#" + this.id(this.at));
      this.title.textContent = title;
      this.text.innerHTML = html; // made by restviz/ui/lesson.py, which lets no markup of a trace or a lesson through
      this.goal = task && Object.keys(goal).some((name) => name !== "optional") ? goal : null;
      this.links();
      this.task.hidden = !task;
      this.task.innerHTML = task;
      this.where.textContent = `page ${page + 1} of ${n}`;
      this.back.disabled = lesson + page === 0;
      this.next.disabled = lesson + 1 === this.lessons.length && page + 1 === n;
      this.next.textContent = page + 1 === n && !this.next.disabled ? "Next lesson →" : "Next →";
      this.ask(answers);
      if (!this.goal && !answers.length) this.tick();
      this.index();
      if (focus) this.title.focus({ preventScroll: innerWidth > 900 }); // on a phone the text is above the player
      await this.stage();
    }

    /** Words of the text that point at nodes of the picture, and light up when one is pointed at there. */
    links() {
      this.words = [...this.text.querySelectorAll("a[href^='#']")].map((link) => {
        const name = link.hash.slice(1), word = el("button", { type: "button", class: "rv-word", on: { mouseenter: () => this.show(name), focus: () => this.show(name), click: () => this.show(name) } }, ...link.childNodes);
        link.replaceWith(word);
        return [name, word];
      });
    }

    show(name) {
      const { player } = this, step = player.model?.steps[player.current];
      if (!step) return;
      const nodes = [-1, ...step.nodes.token.keys()].filter((node) => is(step, name, node));
      if (nodes.length) player.pointNode(nodes[0]);
    }

    /** The lessons, with what was done of each. */
    index() {
      this.list.replaceChildren(...this.lessons.map((lesson, i) => {
        const done = lesson.pages.filter((_, page) => this.done.has(this.id([i, page]))).length, whole = done === lesson.pages.length;
        return el("li", {}, el("button", {
          type: "button", class: "rv-lesson-name", "aria-current": i === this.at[0] ? "page" : null, on: { click: () => this.go(i, 0, true) },
        }, el("span", { text: lesson.title }), el("span", { class: "rv-small", text: whole ? "✓ done" : `${done} of ${lesson.pages.length}` })));
      }));
      const settled = this.done.has(this.id(this.at));
      this.task.dataset.done = settled;
    }

    /** A question: one answer is right, and each says something. */
    ask(answers) {
      this.answers.hidden = !answers.length;
      this.answers.replaceChildren(...answers.map(({ text, feedback, right }) => {
        const told = el("p", { class: "rv-feedback", hidden: true }), button = el("button", { type: "button", class: "rv-answer-choice", on: { click: () => {
          told.hidden = false;
          told.innerHTML = feedback;
          button.dataset.right = right;
          if (right) this.tick();
        } } });
        button.innerHTML = text;
        return el("div", { "aria-live": "polite" }, button, told);
      }));
    }

    /** Open what the page is about. */
    async stage() {
      const { at, page } = this, { method, step, stage, open, node, chart } = page.shown;
      const { run } = this.lesson;
      this.moving = true; // until it is shown, nothing counts as done
      if (!this.traces.has(run)) this.traces.set(run, this.runs(run));
      const traces = await this.traces.get(run).catch(() => this.traces.delete(run) && null); // asked for again next time
      if (this.at !== at) return; // turned on meanwhile
      const { player } = this;
      if (!traces) {
        this.moving = false;
        return player.fail("The run of this lesson could not be read: is the page still connected?");
      }
      player.fail("");
      this.host.dataset.about = stage || node || open || this.words.length ? "tree" : "run"; // the result of the run would push the tree down
      const baseline = traces.autoregressive, trace = traces[method];
      if (this.opened !== run) player.open({ trace: baseline, baseline: null, others: Object.values(traces).filter((other) => other !== baseline) });
      this.opened = run;
      player.look(player.compare.models.find((model) => model.header.method === trace.header.method));
      player.stage = stage ?? "verify";
      player.view.pruned.checked = open === "pruned";
      for (const name of ["mask", "list"]) player.view[name].hidden = open !== name;
      for (const [button, name] of [["maskButton", "mask"], ["listButton", "list"]]) player.view[button].setAttribute("aria-pressed", String(open === name));
      if (player.whatIf.panel) player.whatIf.panel.open = open === "whatif";
      player.seek(step);
      if (node) player.pointNode(+node);
      const panel = chart && player.host.querySelector(`[data-chart=${chart}]`);
      if (panel) panel.scrollIntoView({ block: "nearest" });
      if (this.live) this.try.href = this.live + "?" + new URLSearchParams({ method, ...trace.header.parameters, prompt: trace.header.prompt });
      this.moving = false;
    }

    /** Something is shown or pointed at: perhaps that was what is to be done. */
    watch(node, where) {
      const at = this.player?.model?.steps[this.player.current]; // while it is made there is none
      for (const [name, word] of this.words ?? []) word.classList.toggle("rv-lit", Boolean(at) && node !== null && is(at, name, node));
      if (!this.goal || this.moving) return;
      const { player, goal } = this, { model } = player, step = model?.steps[player.current];
      if (!step) return;
      const met = {
        step: (value) => player.current === +value, stage: (value) => player.stage === value && player.stagesShown,
        method: (value) => model.header.method === value, nodes: (value) => player.current > 0 && RestViz.verified(step) === +value,
        in: (value) => node > 0 && where === value, origin: () => node > 0 && both(step, node),
        fate: (value) => node > 0 && (value === "any" || RestViz.fate(step, node).startsWith({ rejected: "declined" }[value] ?? value)),
      };
      if (Object.entries(goal).every(([name, value]) => met[name]?.(value))) this.tick();
    }

    tick() {
      this.done.add(this.id(this.at));
      kept.save(this.done);
      this.index();
    }

    presenting(on) {
      this.isPresenting = on;
      this.host.classList.toggle("rv-present", on);
      this.present.setAttribute("aria-pressed", String(on));
      this.present.textContent = on ? "End" : "Present";
    }

    key(event) {
      if (!this.isPresenting || event.ctrlKey || event.metaKey || event.altKey || !this.host.checkVisibility()) return;
      const by = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 }[event.key];
      if (event.key === "Escape") this.presenting(false);
      else if (by && !event.target.closest?.("input, textarea, select")) this.turn(by);
      else return;
      event.preventDefault();
      event.stopPropagation();
    }
  }

  RestViz.learn = (host, options) => (RestViz.learning = new Learn(host, options)); // one a page; tests read it
})((globalThis.RestViz = globalThis.RestViz || {}));
