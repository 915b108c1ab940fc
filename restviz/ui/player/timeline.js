/* The timeline: one bar a step, as high as the step is long in tokens; a native range input is the play head. */
(function (RestViz) {
  "use strict";
  const { el, svg } = RestViz;

  const LEAST_SLOTS = 40; // bars keep a sensible width while there are few

  class Timeline {
    constructor(host, { onSeek }) {
      this.svg = svg("svg", { class: "rv-bars", preserveAspectRatio: "none", "aria-hidden": "true" });
      this.range = el("input", {
        type: "range", class: "rv-range", min: 0, max: 0, value: 0, step: 1, "aria-label": "Step",
        on: { input: () => onSeek(+this.range.value) },
      });
      this.track = el("div", { class: "rv-track" }, this.svg, this.range);
      host.append(this.track);
      this.width = 0; // kept, not asked for: asking in the middle of a step would lay out the whole page
      new ResizeObserver(([entry]) => { this.width = entry.contentRect.width; this.fit(); }).observe(this.track);
    }

    reset(model) {
      this.model = model;
      this.svg.replaceChildren();
      this.bars = [];
      this.now = undefined;
      this.highest = 4;
      model.steps.forEach((_, i) => this.append(i));
      this.fit();
    }

    append(i) {
      const { model } = this, step = model.steps[i];
      const bar = svg("g", { class: i > this.now ? "rv-bar later" : "rv-bar" });
      let y = 0;
      const block = (n, kind) => {
        bar.append(svg("rect", { x: i + 0.1, width: 0.8, y: -(y + n), height: n, class: "f-" + kind }));
        y += n;
      };
      const tokens = model.tokens.slice(model.start[i], model.start[i] + model.emitted(i));
      for (let from = 0, to; from < tokens.length; from = to) { // tokens of one origin are one block
        for (to = from + 1; tokens[to]?.kind === tokens[from].kind;) to++;
        block(to - from, tokens[from].kind);
      }
      this.highest = Math.max(this.highest, y);
      this.bars.push(bar);
      this.svg.append(bar);
    }

    fit() {
      if (!this.model) return;
      this.fitted = this.bars.length;
      const n = Math.max(this.fitted, 1), slots = Math.max(n, LEAST_SLOTS);
      const unit = this.width / slots;
      this.svg.setAttribute("viewBox", `0 ${-this.highest} ${slots} ${this.highest}`);
      this.range.style.width = unit * n + "px";
      this.range.style.setProperty("--thumb", Math.max(unit, 8) + "px");
      this.range.max = n - 1;
    }

    show(i, text) {
      if (this.bars.length !== this.fitted) this.fit();
      this.range.value = i;
      this.range.setAttribute("aria-valuetext", text);
      for (let k = Math.min(this.now ?? -1, i) + 1; k <= Math.max(this.now ?? this.bars.length - 1, i); k++) this.bars[k].classList.toggle("later", k > i);
      this.now = i;
    }

    highlight(i) { this.bars.forEach((bar, k) => bar.classList.toggle("hover", k === i)); }
  }

  RestViz.Timeline = Timeline;
})((globalThis.RestViz = globalThis.RestViz || {}));
