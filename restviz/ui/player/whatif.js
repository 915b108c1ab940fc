/* What if: the step on screen drafted again with other parameters, beside what it was, and a sweep over the whole run.
   The answer comes from `ask(model, changes, position)`, see restviz/replay.py; without it the panel stays hidden. */
(function (RestViz) {
  "use strict";
  const { el, plural } = RestViz;

  const PATIENCE = 250; // ms after the last change before it is asked
  const POINTS = 9;     // values of a sweep, spread evenly on a logarithmic scale

  class WhatIf {
    /** @param ask see above; fields: for each method [{name, label, text, min, max} or {…, choices}], a choice “” is “all” */
    constructor(host, { ask, fields, isLive }) {
      Object.assign(this, { host, ask, fields, isLive });
      host.hidden = true;
      if (!ask) return;
      this.form = el("div", { class: "rv-fields" });
      this.said = el("p", { class: "rv-told", role: "status" });
      this.picture = el("div", { class: "rv-tree" });
      this.tree = new RestViz.TreeView(this.picture, { onPoint: () => {} });
      this.which = el("select", { "aria-label": "Parameter to sweep" });
      this.go = el("button", { type: "button", class: "rv-button", text: "Sweep", title: "M of the whole run for several values", on: { click: () => this.sweep() } });
      this.curve = el("div", { class: "rv-curve" });
      this.details = el("details", { on: { toggle: () => this.refresh() } }, el("summary", { text: "What if…" }),
        el("p", { class: "rv-small", text: "Drafted again for this step with other parameters, along the recorded text: what the target would choose is known, so nothing is verified anew." }),
        this.form, this.said, this.picture, el("div", { class: "rv-sweep" }, this.which, this.go, this.curve));
      host.append(this.details);
    }

    /** @param stage, showPruned how the step itself is shown; the other tree follows */
    show(model, step, stage, showPruned) {
      if (!this.ask) return;
      const fields = this.fields[model.header.method] ?? [];
      this.host.hidden = !fields.length || this.isLive() || step.index === 0;
      if (this.host.hidden) return;
      if (this.model !== model) {
        this.changes = {};
        this.other = null;
        this.curve.replaceChildren();
        this.form.replaceChildren(...fields.map((field) => this.field(field, model.header.parameters[field.name])));
        this.which.replaceChildren(...fields.filter((field) => !field.choices).map(({ name, label }) => el("option", { value: name, text: label, selected: name === "prune_k" || name === "budget" })));
      }
      const another = this.model !== model || this.step !== step;
      Object.assign(this, { model, step, stage, showPruned });
      if (another) this.refresh();
      else this.draw();
    }

    field({ name, label, text, min, max, choices }, value) {
      const change = () => {
        this.changes[name] = choices ? input.value : input.value === "" ? value : +input.value;
        this.refresh();
      };
      const input = choices
        ? el("select", { title: text, on: { change } }, ...choices.map((choice) => el("option", { value: choice, text: choice || "all", selected: choice === (value ?? "") })))
        : el("input", { type: "number", min, max, value, title: text, on: { input: change } });
      return el("label", { class: "rv-small" }, label, input);
    }

    refresh() {
      clearTimeout(this.timer);
      if (!this.details.open || this.host.hidden) return;
      this.timer = setTimeout(() => this.answer(), PATIENCE);
    }

    async answer() {
      const { model, step } = this, changes = { ...this.changes };
      this.said.textContent = "Drafting…";
      try {
        const { step: other, text, bytes } = await this.ask(model, changes, step.position);
        if (this.step !== step || JSON.stringify(changes) !== JSON.stringify(this.changes)) return; // asked again meanwhile
        model.learn(text, bytes);
        this.other = other;
        this.draw();
        const size = RestViz.verified, counts = RestViz.stages(other);
        this.said.replaceChildren(counts ? `${RestViz.flow(counts)}: ` : "", el("strong", { text: `${plural(other.accepted.length, "token")} accepted of ${plural(size(other), "node")}` }),
          `; it was ${other.accepted.length === step.accepted.length && size(other) === size(step) ? "the same" : `${step.accepted.length} of ${size(step)}`}.`);
      } catch (error) { this.said.textContent = this.reason(error); }
    }

    /** The other tree, at the stage that the step is looked at. */
    draw() {
      if (this.other && this.other.position === this.step.position) this.tree.draw(this.model, this.other, this.showPruned, false, RestViz.stages(this.other) ? this.stage : "verify");
    }

    /** What cannot be, with the labels that people see in place of the settings' names. */
    reason(error) {
      const labels = Object.fromEntries(this.fields[this.model.header.method].map(({ name, label }) => [name, label]));
      return error.message.replace(/\w+/g, (word) => labels[word] ?? word);
    }

    /** M for several values of one parameter, with the other changes as they are. */
    async sweep() {
      const { model } = this, name = this.which.value, field = this.fields[model.header.method].find((f) => f.name === name);
      const now = this.changes[name] ?? model.header.parameters[name];
      const low = Math.max(field.min, 1), high = Math.min(field.max, 64), values = new Set([field.min, now]);
      for (let i = 0; i < POINTS; i++) values.add(Math.round(low * (high / low) ** (i / (POINTS - 1))));
      const rows = [];
      this.go.disabled = true;
      try {
        for (const value of [...values].sort((a, b) => a - b)) {
          let M = null, said = "";
          try { ({ M } = await this.ask(model, { ...this.changes, [name]: value }, null)); } catch (error) { said = this.reason(error); }
          if (this.model !== model) return;
          rows.push({ value, M, said });
          const most = Math.max(...rows.map((row) => row.M ?? 0), 1);
          this.curve.replaceChildren(el("p", { class: "rv-small", text: `M, tokens a step over the whole run, for ${field.label}` }),
            ...rows.map((row) => {
              const bar = el("span", { class: "rv-lane-bar k-run" });
              bar.style.width = (100 * (row.M ?? 0)) / most + "%";
              return el("div", { class: row.value === now ? "rv-point here" : "rv-point" }, el("span", { text: String(row.value) + (row.value === now ? " (now)" : "") }),
                el("span", { class: "rv-lane-track" }, bar), el("span", { text: row.said || row.M.toFixed(2) }));
            }));
        }
      } finally { this.go.disabled = false; }
    }
  }

  RestViz.WhatIf = WhatIf;
})((globalThis.RestViz = globalThis.RestViz || {}));
