/* Live charts with plotly.js.  Points are collected, and while a run is live the charts take turns and only those in
   view are drawn: a redraw costs tens of milliseconds, which a step on screen must not wait for. */
(function (RestViz) {
  "use strict";
  const { el } = RestViz;

  const EVERY = 300; // ms between two redraws while running: more would cost the model's own processor time
  const PARTS = ["forward", "retrieve", "draft", "fuse", "accept", "other"];
  const PATTERNS = { forward: "", retrieve: "/", draft: "x", fuse: "+", accept: "\\", other: "." };
  const ORIGINS = { datastore: ["datastore", ""], context: ["text itself", "/"], model: ["draft model", "x"], fused: ["several", "+"] };
  const CONFIG = { displayModeBar: false, responsive: true };

  class Charts {
    constructor(host, { onSeek }) {
      this.onSeek = onSeek;
      const panel = (...words) => {
        const plot = this.panel(...words);
        host.append(plot.parentNode);
        return plot;
      };
      this.race = panel("race", "Tokens over time", "against the measured baseline, without the prefill");
      this.tokens = panel("tokens", "Tokens per step", "accepted from the draft, plus the target's own");
      this.times = panel("times", "Time per step", "where the milliseconds of a step go");
      this.histogram = panel("histogram", "How many tokens a step gives", "steps by the tokens that they added to the text");
      this.depths = panel("depths", "Accepted by depth", "share of steps that accepted a token so far ahead");
      this.costs = panel("costs", "What a forward costs", "line: measured at load, after a short text; dots: this run");
      this.whole = [this.histogram, this.depths, this.costs]; // of a run that is over
      this.live = false;
      this.unseen = new Set();
      const seen = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting } of entries) this.unseen[isIntersecting ? "delete" : "add"](target);
        this.append();
      });
      [this.race, this.tokens, this.times, ...this.whole].forEach((plot) => seen.observe(plot));
      this.sizes = new ResizeObserver(() => this.ready && this.each((plot) => this.plotly.Plots.resize(plot)));
    }

    /** An empty chart in a figure, its parent, that can be saved. */
    panel(id, title, caption) {
      const plot = el("div", { class: "rv-plot" });
      const save = (format) => el("button", { type: "button", class: "rv-link", text: format.toUpperCase(), "aria-label": `${title} as ${format.toUpperCase()}`,
        on: { click: () => plot.data && this.plotly.downloadImage(plot, { format, filename: `restviz-${id}`, width: 640, height: 360, scale: 2 }) } });
      el("figure", { class: "rv-chart", "data-chart": id },
        el("figcaption", {}, el("strong", { text: title }), el("span", { class: "rv-saves" }, save("svg"), save("png")), el("span", { text: caption })), plot);
      return plot;
    }

    /** M for the values of a parameter, [[value, M], …]; `now` is what the run had. */
    curve(plot, points, label, now) {
      this.curves = () => this.curve(plot, points, label, now); // again, in the other theme's colours
      plot.setAttribute("role", "img");
      plot.setAttribute("aria-label", `M by ${label}: ` + points.map(([x, y]) => `${x}: ${y.toFixed(2)}`).join(", "));
      if (!this.plotly) return;
      const c = (this.c ??= this.colours()), here = points.filter(([x]) => x === now);
      const series = (name, some, more) => ({ x: some.map(([x]) => x), y: some.map(([, y]) => y), name, hovertemplate: "%{x}: %{y:.2f}<extra>" + name + "</extra>", ...more });
      this.plotly.react(plot, [
        series("M", points, { mode: "lines+markers", line: { color: c.run, width: 2 }, marker: { size: 6 } }),
        series("this run", here, { mode: "markers", marker: { color: c.bonus, size: 11, symbol: "diamond" } }),
      ], this.axes(label, "tokens a step"), CONFIG);
    }

    /** plotly.js may arrive after the first steps. */
    attach(plotly) {
      this.plotly = plotly;
      this.ready = false;
      this.repaint();
    }

    /** Everything anew, in the colours of now. */
    repaint() {
      this.redraw();
      this.curves?.();
    }

    each(action) { [this.race, this.tokens, this.times, ...this.whole].filter((plot) => plot.data).forEach(action); }

    /** Show these runs; drawing everything anew happens here only, steps are added by `append`. */
    reset(run, baseline) {
      this.run = run;
      this.baseline = baseline;
      this.redraw();
    }

    colours() {
      const style = getComputedStyle(this.race);
      const get = (name) => style.getPropertyValue(name).trim();
      return {
        ink: get("--ink-2"), grid: get("--line"), run: get("--datastore"), bonus: get("--bonus"), base: get("--ink-3"),
        forward: get("--forward"), retrieve: get("--datastore"), draft: get("--model"), fuse: get("--context"),
        accept: get("--bonus"), other: get("--ink-3"), panel: get("--panel"),
        datastore: get("--datastore"), context: get("--context"), model: get("--model"), fused: get("--fused"),
      };
    }

    axes(x, y, extra, upright) {
      const c = this.c;
      const axis = { gridcolor: c.grid, zeroline: false, linecolor: c.grid, ticks: "", automargin: true };
      return {
        margin: { l: 44, r: 10, t: 24, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: c.ink, size: 11, family: "system-ui, sans-serif" }, bargap: 0.15, showlegend: true,
        legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 11 }, traceorder: "normal" },
        hoverlabel: { bgcolor: c.panel, bordercolor: c.grid, font: { color: c.ink } },
        xaxis: { ...axis, title: { text: x, standoff: 4 }, rangemode: "tozero" },
        yaxis: { ...axis, title: { text: y, standoff: 4 }, rangemode: "tozero", ...upright }, ...extra,
      };
    }

    redraw() {
      for (const plot of this.whole) plot.parentNode.hidden = !this.run || this.live || this.run.isBaseline && plot !== this.costs;
      if (!this.plotly || !this.run) return;
      const c = (this.c = this.colours()), { run, baseline } = this;
      this.drawn = { race: 0, base: 0, tokens: 0, times: 0 };
      this.summed = null;
      this.tokens.lined = this.times.lined = undefined;
      const line = (name, colour, dash) => ({
        x: [0], y: [0], name, mode: "lines", line: { color: colour, width: 2.5, dash, shape: "linear" },
        hovertemplate: "%{y} tokens after %{x:.2f} s<extra>" + name + "</extra>",
      });
      const race = [];
      if (!run.isBaseline) race.push(line(RestViz.method(run.header.method), c.run));
      race.push(line("autoregressive", c.base, "dash"));
      const bar = (name, colour, pattern, unit) => this.bar(name, colour, pattern, `step %{x}: %{y} ${unit}`);
      this.parts = PARTS.filter((part) => ["forward", "other"].includes(part) || run.steps.some((step) => step.times[part] > 0)
        || (part !== "draft" && part !== "fuse" && !run.isBaseline));
      const stacked = { barmode: "stack" };
      this.ready = false;
      const drawing = Promise.all([
        this.plotly.react(this.race, race, this.axes("seconds", "tokens"), CONFIG),
        this.plotly.react(this.tokens, [bar("accepted", c.run, "", "tokens"), bar("target's own", c.bonus, "/", "token")],
          this.axes("step", "tokens", stacked), CONFIG),
        this.plotly.react(this.times, this.parts.map((part) => bar(part, c[part], PATTERNS[part], "ms")),
          this.axes("step", "ms", stacked), CONFIG),
      ]);
      this.drawing = drawing;
      drawing.then(() => {
        if (this.drawing !== drawing) return;
        this.ready = true;
        for (const plot of [this.tokens, this.times]) {
          plot.removeAllListeners?.("plotly_click");
          plot.on("plotly_click", (event) => this.onSeek(event.points[0].x));
        }
        this.sizes.observe(this.race);
        this.flush();
      });
    }

    bar(name, colour, pattern, hover, x = [], y = []) {
      const marker = { color: colour, pattern: { shape: pattern, fillmode: "overlay", size: 5, solidity: 0.25, fgcolor: this.c.panel } };
      return { type: "bar", x, y, name, marker, hovertemplate: `${hover}<extra>${name}</extra>` };
    }

    /** The charts of a run that is over, drawn once, when one of them is in view. */
    sum() {
      const { run, c } = this;
      if (this.summed === run.steps.length || this.whole.every((plot) => this.unseen.has(plot))) return;
      this.summed = run.steps.length;
      const sizes = RestViz.histogram(run), depths = RestViz.byDepth(run), { points, curve } = RestViz.cost(run);
      this.plotly.react(this.histogram, [this.bar("steps", c.run, "", "%{y} steps gave %{x} tokens", sizes.x, sizes.y)],
        this.axes("tokens of a step", "steps", { showlegend: false }), CONFIG);
      this.plotly.react(this.depths, Object.entries(depths.series).map(([kind, y]) =>
        this.bar(ORIGINS[kind][0], c[kind], ORIGINS[kind][1], "%{x} ahead: %{y:.0%} of steps", depths.x, y)),
      this.axes("tokens ahead", "share of steps", { barmode: "stack" }, { tickformat: ".0%" }), CONFIG);
      const lines = curve.x.length ? [{
        x: curve.x, y: curve.y, name: "measured at load", mode: "lines+markers", line: { color: c.base, dash: "dash", width: 2 }, marker: { size: 5 },
        text: curve.y.map((y) => `${(y / curve.y[0]).toFixed(2)}× one row`), hovertemplate: "%{x} rows: %{y:.0f} ms, %{text}<extra></extra>",
      }] : [];
      this.plotly.react(this.costs, [...lines, {
        ...points, name: "this run", mode: "markers", marker: { color: c.run, size: 6, opacity: 0.55 }, hovertemplate: "%{x} rows: %{y:.0f} ms<extra>this run</extra>",
      }], this.axes("rows: drafted nodes and the root", "ms"), CONFIG);
    }

    /** The run is over: what it says as a whole can be shown. */
    end() {
      this.live = false;
      this.redraw();
    }

    /** A step was added, or another one is on screen. */
    append() {
      if (!this.timer) this.timer = setTimeout(() => { this.timer = null; this.flush(); }, this.live ? EVERY : 40);
    }

    /** Draw what is new: everything, or the next chart in turn while a run is live. */
    flush() {
      if (!this.ready) return;
      const jobs = [["race", () => this.addRace()], ["tokens", () => this.addTokens()], ["times", () => this.addTimes()]]
        .filter(([name]) => !this.unseen.has(this[name]));
      if (!this.live) {
        jobs.forEach(([, draw]) => draw());
        this.line();
        this.sum();
      } else if (jobs.length) {
        this.turn = ((this.turn ?? -1) + 1) % jobs.length;
        jobs[this.turn][1]();
        if (jobs.some(([name]) => this.drawn[name] < this.run.steps.length)) this.append();
      }
    }

    addRace() {
      const runs = [[this.run, 0, "race"], ...(this.run.isBaseline ? [] : [[this.baseline, 1, "base"]])];
      for (const [model, trace, key] of runs) {
        if (!model || model.steps.length <= this.drawn[key]) continue;
        const x = [], y = [];
        for (let i = Math.max(this.drawn[key], 1); i < model.steps.length; i++) {
          x.push(model.seconds[i]);
          y.push(model.start[i] + model.emitted(i) - model.emitted(0));
        }
        if (x.length) this.plotly.extendTraces(this.race, { x: [x], y: [y] }, [trace]);
        this.drawn[key] = model.steps.length;
      }
    }

    fresh(key) {
      const steps = this.run.steps.slice(this.drawn[key]);
      this.drawn[key] = this.run.steps.length;
      return steps;
    }

    addTokens() {
      const steps = this.fresh("tokens"), x = steps.map((step) => step.index);
      if (!x.length) return;
      const y = [steps.map((step) => step.accepted.length), steps.map((step) => (step.bonus === null ? 0 : 1))];
      this.plotly.extendTraces(this.tokens, { x: [x, x], y }, [0, 1]);
    }

    /** The prefill reads the whole prompt: next to it all other bars would be flat, so it has no bar here. */
    addTimes() {
      const steps = this.fresh("times").filter((step) => step.index > 0), x = steps.map((step) => step.index);
      if (!x.length) return;
      const y = this.parts.map((part) => steps.map((step) => step.times[part]));
      this.plotly.extendTraces(this.times, { x: y.map(() => x), y }, y.map((_, k) => k));
    }

    /** A line at the step on screen. */
    mark(i) {
      this.current = i;
      this.append();
    }

    line() {
      const i = this.current;
      if (i === undefined) return;
      const shapes = [{
        type: "line", xref: "x", yref: "paper", x0: i, x1: i, y0: 0, y1: 1, line: { color: this.c.ink, width: 1, dash: "dot" },
      }];
      for (const plot of [this.tokens, this.times]) {
        if (this.unseen.has(plot) || plot.lined === i) continue;
        plot.lined = i;
        this.plotly.relayout(plot, { shapes });
      }
    }
  }

  RestViz.Charts = Charts;
})((globalThis.RestViz = globalThis.RestViz || {}));
