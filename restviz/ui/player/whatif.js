/* What if: the step on screen drafted again with other parameters, under what it was, and a sweep over the whole run.
   The answer comes from `ask(model, changes, position)`, see restviz/replay.py; without it the panel stays hidden. */
(function (RestViz) {
  "use strict";
  const { el, plural } = RestViz;

  const PATIENCE = 250; // ms after the last change before it is asked
  const POINTS = 12;    // values of a sweep, spread evenly on a logarithmic scale
  const FURTHEST = 64;  // value of a sweep, at most

  class WhatIf {
    /** @param ask see above; places: see inspector.js; charts draw the sweep; fields: for each method
        [{name, label, text, min, max} or {…, choices} or, for any number of choices, {…, choices, many}] */
    constructor(host, { ask, places, fields, charts, isLive }) {
      Object.assign(this, { host, ask, fields, charts, isLive });
      host.hidden = true;
      if (!ask) return;
      this.form = el("div", { class: "rv-fields" });
      this.said = el("p", { class: "rv-told", role: "status" });
      this.picture = el("div", { class: "rv-tree" });
      this.tree = new RestViz.TreeView(this.picture, { name: "Draft tree with other parameters", onPoint: (node) => this.point(node) });
      this.details = el("aside", { class: "rv-inspector", tabindex: 0, "aria-label": "Details of the tree with other parameters" });
      this.inspector = new RestViz.Inspector(this.details, places);
      this.other = el("div", { class: "rv-other", hidden: true }, this.picture, this.details);
      this.which = el("select", { "aria-label": "Parameter to sweep" });
      this.go = el("button", { type: "button", class: "rv-button", text: "Sweep", title: "M of the whole run for several values", on: { click: () => this.sweep() } });
      this.curve = charts.panel("sweep", "M by parameter", "tokens a step over the whole run");
      this.curve.parentNode.hidden = true;
      this.summary = el("p", { class: "rv-small" });
      this.panel = el("details", { on: { toggle: () => { this.opened = this.panel.open; this.refresh(); } } }, el("summary", { text: "What if…" }),
        this.form, this.said, this.other,
        el("p", { class: "rv-small", text: "Drafted again for this step with other parameters, along the recorded text: what the target would choose is known, so nothing is verified anew." }), el("div", { class: "rv-sweep" }, this.which, this.go), this.curve.parentNode, this.summary);
      host.append(this.panel);
    }

    /** @param stage, showPruned how the step itself is shown; the other tree follows */
    show(model, step, stage, showPruned) {
      if (!this.ask) return;
      const fields = this.fields[model.header.method] ?? [];
      this.host.hidden = !fields.length || this.isLive() || step.index === 0;
      if (this.host.hidden) {
        this.step = null; // an answer that is on its way is to no question any more
        return;
      }
      if (this.model !== model) {
        this.changes = {};
        this.curve.parentNode.hidden = true;
        this.summary.textContent = "";
        this.form.replaceChildren(...fields.map((field) => this.field(field, model.header)));
        this.which.replaceChildren(...fields.filter((field) => !field.choices).map(({ name, label }) => el("option", { value: name, text: label, selected: name === "prune_k" || name === "budget" })));
      }
      const another = this.model !== model || this.step !== step;
      Object.assign(this, { model, step, stage, showPruned });
      if (!another) return this.draw();
      this.drafted = null;
      this.other.hidden = true;
      this.said.textContent = "";
      this.refresh();
    }

    field({ name, label, text, min, max, choices, many }, header) {
      const value = header.parameters[name];
      const change = (other) => {
        this.changes = { ...this.changes, [name]: other };
        this.refresh();
      };
      if (many) return this.several(choices, label, text, value ? value.split(",") : header.datastores.map((store) => store.name), value ?? "", change);
      const input = choices
        ? el("select", { title: text, on: { change: () => change(input.value) } }, ...choices.map((choice) => el("option", { value: choice, text: choice, selected: choice === value })))
        : el("input", { type: "number", min, max, value, title: text, on: { input: () => change(input.value === "" ? value : +input.value) } });
      return el("label", { class: "rv-small" }, label, input);
    }

    /** A box for each choice, of which the `chosen` are ticked at first, which is what `all` says. */
    several(choices, label, text, chosen, all, change) {
      const ticked = choices.filter((value) => chosen.includes(value));
      const boxes = choices.map((value) => el("input", { type: "checkbox", value, checked: ticked.includes(value), on: { change: () => {
        const now = boxes.filter((box) => box.checked).map((box) => box.value);
        change(now.join() === ticked.join() ? all : now.join() || null);
      } } }));
      return el("fieldset", { class: "rv-several rv-small", title: text }, el("legend", { text: label }), ...boxes.map((box) => el("label", {}, box, box.value)));
    }

    refresh() {
      clearTimeout(this.timer);
      if (!this.panel.open || this.host.hidden) return;
      this.timer = setTimeout(() => this.answer(), PATIENCE);
    }

    async answer() {
      const { model, step, changes } = this, late = () => this.step !== step || this.changes !== changes; // asked again meanwhile
      this.said.textContent = "Drafting…";
      try {
        if (Object.values(changes).includes(null)) throw new Error("Choose at least one datastore.");
        const { step: other, text, bytes, datastores } = await this.ask(model, changes, step.position);
        if (late()) return;
        model.learn(text, bytes);
        this.drafted = { ...other, index: step.index };
        this.as = Object.assign(Object.create(model), { header: { ...model.header, datastores } }); // which its flags number
        this.draw();
        if (this.opened) this.other.scrollIntoView({ block: "nearest" }); // both trees in view
        this.opened = false;
        const size = RestViz.verified, counts = RestViz.stages(other);
        this.said.replaceChildren(counts ? `${RestViz.flow(counts)}: ` : "", el("strong", { text: `${plural(other.accepted.length, "token")} accepted of ${plural(size(other), "node")}` }),
          `; it was ${this.difference(step, other) || "the same."}`);
      } catch (error) {
        if (late()) return;
        this.said.textContent = this.reason(error);
        this.other.hidden = true; // it would be of the question before
        this.drafted = null;
      }
    }

    /** What the step had, and how many nodes are verified in one of the two trees only; empty where they are equal. */
    difference(step, other) {
      const before = RestViz.byPath(step, "verify"), now = RestViz.byPath(other, "verify");
      const [fresh, gone] = [[now, before], [before, now]].map(([all, others]) => [...all.keys()].filter((path) => !others.has(path)).length);
      return fresh || gone ? `${step.accepted.length} of ${before.size}: ${fresh} new (+), ${gone} gone.` : "";
    }

    get otherStage() { return RestViz.stages(this.drafted) ? this.stage : "verify"; }

    /** The other tree, at the stage that the step is looked at. */
    draw() {
      if (!this.drafted || !this.panel.open) return;
      this.other.hidden = false;
      const [recorded, now] = [this.step, this.drafted].map((one) => RestViz.byPath(one, this.otherStage));
      this.tree.fresh = new Set([...now].filter(([path]) => !recorded.has(path)).map(([, node]) => node));
      this.tree.draw(this.as, this.drafted, this.showPruned, false, this.otherStage);
      this.inspector.step(this.as, this.drafted, this.otherStage);
    }

    point(node) {
      this.tree.point(node);
      this.inspector.node(this.as, this.drafted, node);
    }

    /** What cannot be, with the labels that people see in place of the settings' names. */
    reason(error) {
      const labels = Object.fromEntries(this.fields[this.model.header.method].map(({ name, label }) => [name, label]));
      return error.message.replace(/\w+/g, (word) => labels[word] ?? word);
    }

    /** M for several values of one parameter, with the other changes as they are now. */
    async sweep() {
      const { model } = this, changes = { ...this.changes }, name = this.which.value, field = this.fields[model.header.method].find((f) => f.name === name);
      const now = changes[name] ?? model.header.parameters[name];
      const low = Math.max(field.min, 1), high = Math.min(field.max, FURTHEST), values = new Set([field.min, now]);
      for (let i = 0; i < POINTS; i++) values.add(Math.round(low * (high / low) ** (i / (POINTS - 1))));
      const points = [], refused = [];
      this.go.disabled = true;
      this.curve.parentNode.hidden = false;
      this.summary.textContent = "";
      try {
        for (const value of [...values].sort((a, b) => a - b)) {
          this.go.textContent = `Sweeping: ${value}`;
          try {
            points.push([value, (await this.ask(model, { ...changes, [name]: value }, null)).M]);
          } catch (error) { refused.push(`${value}: ${this.reason(error)}`); }
          if (this.model !== model) return;
          this.charts.curve(this.curve, points, field.label, now);
          const best = points.reduce((a, b) => (b[1] > (a?.[1] ?? 0) ? b : a), null);
          this.summary.textContent = [best && `M is ${best[1].toFixed(2)} ${points.every(([, M]) => M === best[1]) ? "for every value" : `at best, where ${field.label} is ${best[0]}`}.`, ...refused].filter(Boolean).join(" ");
        }
      } finally {
        this.go.disabled = false;
        this.go.textContent = "Sweep";
      }
    }
  }

  RestViz.WhatIf = WhatIf;
})((globalThis.RestViz = globalThis.RestViz || {}));
