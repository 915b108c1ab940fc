/* Several runs of one prompt beside each other: a table of what was measured, and lanes that replay them on one clock.
   Runs with the same method and parameters are repeats: the last is the one to look at, all make the spread. */
(function (RestViz) {
  "use strict";
  const { el, count, plural, whole } = RestViz;

  const TAIL = 90; // characters of text shown in a lane

  const key = ({ header }) => JSON.stringify([header.method, header.parameters, header.prompt_ids]);

  class Compare {
    /** @param onChoose(model) a run is to be looked at */
    constructor(host, { onChoose }) {
      this.host = host;
      this.onChoose = onChoose;
      this.models = [];    // the last of each method and parameters, the baseline first
      this.speeds = new Map(); // key of a run -> tokens/s of its repeats
      this.time = Infinity; // seconds on the lanes' clock; Infinity: everything is there
      this.play = el("button", { type: "button", class: "rv-icon", "aria-label": "Replay all", on: { click: () => this.toggle() } }, RestViz.picture("play"));
      this.rate = el("select", { "aria-label": "Replay speed" }, ...[0.25, 0.5, 1, 2, 4].map((x) => el("option", { value: x, text: x + "×", selected: x === 1 })));
      this.clock = el("span", { class: "rv-clock" });
      this.body = el("tbody");
      this.lanes = el("div", { class: "rv-lanes" });
      const heads = ["method", "tokens/s", "spread", "speedup", "M", "forwards", "drafting, ms/step", "text"];
      host.append(el("div", { class: "rv-head" }, el("h2", { text: "Compare" }), el("p", { class: "rv-small", text: "Runs of this prompt, one after the other on this machine; choose one to look at it. Repeats give the median, and a line from the slowest to the fastest." })),
        el("div", { class: "rv-scroll", tabindex: 0, role: "group", "aria-label": "Table of the runs" }, el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })))), this.body)),
        el("div", { class: "rv-replay" }, this.play, this.clock, this.rate), this.lanes);
      host.hidden = true;
    }

    /** The runs that belong together start with their baseline. */
    start(baseline) {
      if (this.models[0] === baseline) return;
      this.next = null;
      const recorded = this.models[0]?.from; // measured at another time, or on another machine
      if (this.models.length && !recorded && key(this.models[0]) === key(baseline)) this.next = baseline; // compared with once it is over
      else {
        this.models = [baseline];
        this.speeds.clear();
      }
      this.draw();
    }

    clear() {
      this.stop();
      this.models = [];
      this.speeds.clear();
      this.host.hidden = true;
    }

    /** A run is there; one of the same method and parameters takes the place of the one before. */
    add(model) {
      if (this.models.includes(model)) return;
      const same = this.models.findIndex((m, i) => i > 0 && key(m) === key(model));
      if (same > 0) this.models[same] = model;
      else this.models.push(model);
    }

    draw(current) {
      if (this.next?.finish) {
        if (whole(this.next)) this.models[0] = this.next; // one that was stopped says less than the one before
        this.next = null;
      }
      for (const model of this.models) this.measured(model);
      const baseline = this.baseline, done = this.models.filter((model) => model.finish);
      this.host.hidden = done.length < 2;
      if (this.host.hidden) return;
      this.shown = done;
      this.body.replaceChildren(...done.map((model) => this.row(model, baseline, model === current)));
      this.lanes.replaceChildren(...done.map((model) => this.lane(model)));
      this.show();
    }

    /** What the others are compared with; null where only runs with drafts were opened. */
    get baseline() { return this.models[0]?.isBaseline ? this.models[0] : null; }

    /** A run that is over counts once as a repeat; one that was stopped is another, shorter text. */
    measured(model) {
      if (!whole(model) || model.counted) return;
      model.counted = true;
      this.speeds.set(key(model), [...(this.speeds.get(key(model)) ?? []), model.speed]);
    }

    /** Tokens/s of a run's repeats: least, median, most, and how many there are. */
    spread(model) {
      const all = [...(this.speeds.get(key(model)) ?? [model.speed])].sort((a, b) => a - b), n = all.length;
      return { least: all[0], middle: (all[(n - 1) >> 1] + all[n >> 1]) / 2, most: all[n - 1], n };
    }

    /** A bar as long as the median, and a line over it from the least to the most. */
    bar(model) {
      const { least, middle, most, n } = this.spread(model), scale = 100 / Math.max(...this.shown.map((one) => this.spread(one).most), 1e-9);
      const bar = el("span", { class: "rv-lane-bar k-" + (model.isBaseline ? "plain" : "run") }), line = el("span", { class: "rv-whisker", hidden: n < 2 });
      bar.style.width = middle * scale + "%";
      line.style.left = least * scale + "%";
      line.style.width = (most - least) * scale + "%";
      return el("td", { class: "rv-speed", title: n > 1 ? `${plural(n, "repeat")}: ${least.toFixed(1)} to ${most.toFixed(1)} tokens/s` : null }, el("span", { class: "rv-lane-track" }, bar, line));
    }

    row(model, baseline, here) {
      const own = model === baseline, state = own ? "baseline" : baseline ? RestViz.compare(model, baseline).state : "none";
      const { middle: speed, n } = this.spread(model), again = baseline ? this.spread(baseline) : null;
      const ratio = again && speed / (n * again.n > 1 ? again.middle : baseline.speedOf(model.tokens.length));
      const drafting = model.steps.slice(1).map(({ times: t }) => t.retrieve + t.draft + t.fuse).sort((a, b) => a - b);
      const middle = drafting.length ? drafting[Math.floor(drafting.length / 2)] : 0;
      const text = { baseline: "baseline", none: "–", identical: "✓ identical", stopped: "✓ identical so far" }[state] ?? "≠ differs";
      const choose = el("button", { type: "button", class: "rv-link", text: this.name(model), "aria-pressed": String(here), on: { click: () => this.onChoose(model) } });
      return el("tr", { class: here ? "here" : "" }, el("th", { scope: "row" }, choose),
        el("td", { text: speed.toFixed(1) + (n > 1 ? ` (${n} runs)` : "") }), this.bar(model),
        ...[own ? "1.00×" : Number.isFinite(ratio) && speed ? ratio.toFixed(2) + "×" : "–", model.meanLength.toFixed(2), count(model.forwards), own ? "–" : middle.toFixed(1), text]
          .map((value) => el("td", { text: value })));
    }

    /** The method, and what sets a run apart from another of the same method. */
    name(model) {
      const others = this.models.filter((m) => m !== model && m.header.method === model.header.method);
      const mine = model.header.parameters;
      const apart = Object.keys(mine).filter((key) => others.some((m) => m.header.parameters[key] !== mine[key]));
      return RestViz.method(model.header.method) + (apart.length ? ` (${apart.map((key) => `${key} ${mine[key]}`).join(", ")})` : "");
    }

    lane(model) {
      const bar = el("span", { class: "rv-lane-bar k-" + (model.isBaseline ? "plain" : "run") });
      const text = el("span", { class: "rv-lane-text" }), figure = el("span", { class: "rv-lane-figure" });
      model.lane = { bar, text, figure };
      return el("div", { class: "rv-lane" }, el("span", { class: "rv-lane-name", text: this.name(model) }), el("span", { class: "rv-lane-track" }, bar), figure, text);
    }

    /** Everything as it was `time` seconds after the first token. */
    show() {
      const most = Math.max(...this.shown.map((model) => model.tokens.length)), end = Math.max(...this.shown.map((model) => model.duration));
      const now = Math.min(this.time, end);
      for (const model of this.shown) {
        let step = model.seconds.findLastIndex((at) => at <= now);
        const tokens = step < 0 ? 0 : model.start[step] + model.emitted(step);
        model.lane.bar.style.width = (100 * tokens) / most + "%";
        model.lane.text.textContent = RestViz.visible(model.tokens.slice(Math.max(0, tokens - TAIL), tokens).map((token) => token.text).join("")).slice(-TAIL);
        model.lane.figure.textContent = tokens === model.tokens.length ? `${count(tokens)} tokens in ${model.duration.toFixed(2)} s` : `${count(tokens)} tokens`;
      }
      this.clock.textContent = `${now.toFixed(2)} of ${end.toFixed(2)} s`;
      if (this.time >= end) this.stop();
    }

    toggle() {
      if (this.frame) return this.stop();
      const end = Math.max(...this.shown.map((model) => model.duration));
      if (this.time >= end) this.time = 0;
      let before = performance.now();
      const tick = (at) => {
        this.time += ((at - before) / 1000) * +this.rate.value;
        before = at;
        this.frame = requestAnimationFrame(tick);
        this.show();
      };
      this.frame = requestAnimationFrame(tick);
      this.button("pause", "Pause the replay");
    }

    stop() {
      cancelAnimationFrame(this.frame);
      this.frame = null;
      this.button("play", "Replay all");
    }

    button(picture, label) {
      this.play.replaceChildren(RestViz.picture(picture));
      this.play.setAttribute("aria-label", label);
    }
  }

  RestViz.Compare = Compare;
})((globalThis.RestViz = globalThis.RestViz || {}));
