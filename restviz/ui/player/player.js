/* RestViz player: createPlayer(host, {plotly, isDark, template, link, whatIf, fields, places}) shows a run while it happens, or a finished trace.

   start(header, {role, text, bytes})   a run begins; role "baseline" is measured first, "run" is compared with it;
                                  text and bytes name the prompt's token ids
   push(step, text, bytes, at)    one more step of it, with the text of new token ids; at: when the engine made it (s)
   finish(finish, check, answer)  it ended; check: the teacher-forced check of a run whose text differs
   load(trace, {baseline})        a finished trace, stepped from the first step on
   open({trace, baseline, others, from, link})   the same, in place of everything that was shown before; others: more
                                  traces of the prompt; from: a line that says what this is; link: see keep.js
   note(text), fail(text)         a line about what is going on, a line about what went wrong
   latencies                      ms from "the engine made it" to "it is on screen", one number a step

   The player knows nothing of Gradio; what it needs from the page is a host element, plotly.js for the charts, and to
   keep a run as a web page the address of restviz/ui/export.py's template, and its own address for links; for “what if” see whatif.js;
   places(model, step, node) tells where in the datastores a node is from; watch(node) is called when another step, stage or
   run is shown (node: null), and watch(node, where) when a node is pointed at in the tree or the mask. */
(function (RestViz) {
  "use strict";
  const { TraceModel, el } = RestViz;

  const tick = (() => { // runs after the frame that is being made has been painted
    const channel = new MessageChannel(), waiting = [];
    channel.port1.onmessage = () => waiting.splice(0).forEach((callback) => callback());
    return (callback) => { waiting.push(callback); channel.port2.postMessage(0); };
  })();

  class Player {
    constructor(host, { plotly = globalThis.Plotly, isDark = null, template = null, link = null, whatIf = null, fields = {}, places = null, watch = () => {} } = {}) {
      Object.assign(this, { host, watch });
      host.classList.add("rv");
      this.isDark = isDark || (() => matchMedia("(prefers-color-scheme: dark)").matches);
      const v = (this.view = RestViz.buildView(host));
      this.models = { run: null, baseline: null };
      this.role = "run";
      this.current = -1;
      this.live = false;
      this.follow = true;
      this.latencies = [];
      this.unseen = [];
      this.verdict = new RestViz.Verdict(v.verdict);
      this.answer = new RestViz.AnswerView(v.answer, { onStep: (i) => this.seek(i), onHover: (token, byKey) => this.pointToken(token, byKey) });
      this.timeline = new RestViz.Timeline(v.timeline, { onSeek: (i) => this.seek(i) });
      this.stage = "verify";
      this.stageButtons = Object.fromEntries(Object.entries(RestViz.STAGES).map(([name, { label }], i) => [name, el("button", {
        type: "button", class: "rv-stage", role: "radio", title: `${label} (${i + 1})`, on: { click: () => this.show(name) },
      }, el("span", { text: `${i + 1} ${label}` }), el("span", { class: "rv-stage-count" }))]));
      v.stages.append(...Object.values(this.stageButtons));
      this.tree = new RestViz.TreeView(v.tree, { onPoint: (node, byKey) => this.pointNode(node, byKey) });
      this.mask = new RestViz.MaskView(v.mask, { onPoint: (node) => this.pointNode(node, false, "mask") });
      this.list = new RestViz.ListView(v.list, { onPoint: (node) => this.pointNode(node) });
      this.inspector = new RestViz.Inspector(v.inspector, places);
      this.charts = new RestViz.Charts(v.charts, { onSeek: (i) => this.seek(i) });
      this.compare = new RestViz.Compare(v.compare, { onChoose: (model) => this.look(model) });
      this.keep = new RestViz.Keep(v.keep, this, template, link);
      this.keep.show();
      this.whatIf = new RestViz.WhatIf(v.whatIf, { ask: whatIf, places, fields, charts: this.charts, isLive: () => this.live });
      this.theme();
      Promise.resolve(plotly).then((loaded) => loaded && this.charts.attach(loaded));
      v.first.addEventListener("click", () => this.seek(0));
      v.back.addEventListener("click", () => this.seek(this.current - 1));
      v.next.addEventListener("click", () => this.seek(this.current + 1));
      v.last.addEventListener("click", () => this.seek(Infinity));
      v.play.addEventListener("click", () => this.toggle());
      v.pruned.addEventListener("change", () => this.draw());
      v.fold.addEventListener("change", () => this.tree.fold(v.fold.checked));
      for (const [button, panel] of [[v.maskButton, v.mask], [v.listButton, v.list]]) {
        button.addEventListener("click", () => {
          panel.hidden = !panel.hidden;
          button.setAttribute("aria-pressed", String(!panel.hidden));
          this.draw();
        });
      }
      this.onKey = (event) => this.key(event);
      document.addEventListener("keydown", this.onKey);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.theme());
    }

    get model() { return this.models[this.role]; }

    theme() {
      const dark = this.isDark() ? "dark" : "light";
      if (this.host.dataset.theme === dark) return;
      this.host.dataset.theme = dark;
      this.charts.repaint();
    }

    /* ---- a run, live ---- */

    start(header, { role = "run", text = {}, bytes = {} } = {}) {
      const model = new TraceModel(header);
      model.learn(text, bytes);
      this.live = this.charts.live = true;
      this.begin(model, role);
      return model;
    }

    /** A baseline that was measured before is there at once. */
    setBaseline(model) {
      this.models.baseline = model;
      this.compare.start(model);
    }

    /** Show a run that is there already, from its first step on. */
    look(model) {
      if (this.live) return;
      if (this.compare.baseline) this.models.baseline = this.compare.baseline; // one that was stopped may have come after it
      this.begin(model, model === this.models.baseline ? "baseline" : "run");
      this.seek(0);
      this.compare.draw(model);
    }

    begin(model, role) {
      this.pause();
      this.role = role;
      this.models[role] = model;
      if (role === "baseline") {
        this.models.run = null;
        this.compare.start(model);
      } else this.compare.add(model);
      this.current = -1;
      this.follow = true;
      this.unseen = [];
      if (role === "run") this.latencies = [];
      const v = this.view;
      v.empty.hidden = true;
      v.main.hidden = v.keys.hidden = false;
      v.alert.hidden = true;
      v.answerTitle.textContent = `Answer (${RestViz.method(model.header.method)})`;
      v.answerLegend.replaceChildren(...RestViz.legendOfAnswer(model.header));
      this.answer.reset(model);
      this.timeline.reset(model);
      this.charts.reset(model, this.models.baseline);
      this.verdict.show(model, model.isBaseline ? null : this.models.baseline);
      this.draw();
    }

    push(step, text, bytes, at) {
      const { model } = this;
      model.learn(text, bytes);
      model.push(step);
      this.answer.append(step.index);
      this.timeline.append(step.index);
      this.charts.append();
      if (at && this.role === "run") this.unseen.push(at);
      this.schedule();
    }

    finish(finish, check = null, answer = null) {
      this.model.end(finish, check, answer);
      this.live = false;
      this.charts.end();
      this.compare.draw(this.model);
      this.schedule();
    }

    /** Draw once a frame at most, whatever arrives meanwhile. */
    schedule() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        if (this.follow) this.current = this.model.steps.length - 1;
        this.draw();
        const shown = this.unseen.splice(0);
        tick(() => shown.forEach((at) => this.latencies.push(Date.now() - at * 1000)));
      });
    }

    load(trace, { baseline = null } = {}) {
      if (baseline) this.setBaseline(baseline instanceof TraceModel ? baseline : TraceModel.from(baseline));
      this.live = this.charts.live = false;
      this.begin(TraceModel.from(trace), "run");
      this.seek(0);
      this.compare.draw(this.model);
    }

    open({ trace, baseline, others = [], from = "", link = null }) {
      const first = baseline ?? (trace.header.method === "autoregressive" ? trace : null);
      this.models = { run: null, baseline: null };
      this.compare.clear();
      this.live = this.charts.live = false;
      if (first === trace) this.begin(TraceModel.from(trace), "baseline");
      else this.load(trace, { baseline });
      others.forEach((other) => this.compare.add(TraceModel.from(other)));
      for (const model of this.compare.models.concat(this.model)) Object.assign(model, { from, link });
      this.compare.draw(this.model);
      this.seek(0);
    }

    note(text, busy = true) { this.line(this.view.note, text, busy ? "busy" : "done"); }
    fail(text) {
      this.line(this.view.alert, text, "error");
      if (text) this.view.alert.scrollIntoView({ block: "nearest" });
    }

    line(node, text, kind) {
      node.hidden = !text;
      node.dataset.kind = kind;
      if (node.textContent !== (text || "")) node.textContent = text || "";
    }

    foot(text) { this.view.foot.textContent = text; }

    /* ---- stepping ---- */

    seek(i) {
      if (!this.model) return;
      const last = this.model.steps.length - 1;
      this.current = Math.max(0, Math.min(last, i));
      this.follow = this.current === last;
      if (this.current === last) this.pause();
      this.draw();
    }

    toggle() {
      if (this.playing) return this.pause();
      if (!this.model || this.live) return;
      if (this.current >= this.model.steps.length - 1) this.seek(0);
      this.playing = true;
      this.playButton();
      this.advance();
    }

    advance() {
      const pace = +this.view.pace.value;
      const next = this.model.steps[this.current + 1];
      if (!next) return this.pause();
      this.timer = setTimeout(() => { this.seek(this.current + 1); if (this.playing) this.advance(); }, pace || TraceModel.ms(next));
    }

    pause() {
      clearTimeout(this.timer);
      this.playing = false;
      this.playButton();
    }

    get stagesShown() { return !this.view.stages.hidden; }

    playButton() {
      const { play } = this.view;
      play.replaceChildren(RestViz.picture(this.playing ? "pause" : "play"));
      play.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    }

    key(event) {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !this.model || !this.host.checkVisibility()) return;
      const at = event.target, range = at === this.timeline.range;
      const typing = !range && at.closest?.("input, textarea, select, [contenteditable=true], [role=listbox], [role=slider]");
      const space = event.key === " ";
      if (typing && !(at.type === "checkbox" && !space)) return;
      if (space && at.closest?.("button, a, summary, [role=button]")) return;
      const arrow = { ArrowLeft: -1, ArrowRight: 1 }[event.key], box = at.closest?.(".rv-scroll");
      if (arrow && box && box.scrollWidth > box.clientWidth) return; // they scroll a table that is wider than its box
      if (arrow && at.classList?.contains("rv-stage")) { // a radio group is one stop for Tab; its arrows choose
        const names = Object.keys(RestViz.STAGES), i = names.indexOf(this.stage) + arrow;
        if (names[i]) { this.show(names[i]); this.stageButtons[names[i]].focus(); }
        return event.preventDefault();
      }
      const to = { ArrowLeft: this.current - 1, ArrowRight: this.current + 1, Home: 0, End: Infinity }[event.key];
      if (to !== undefined) {
        this.seek(to);
        if (!this.live && !range) this.say(`${this.view.where.textContent}. ${this.view.why.textContent}`); // the range speaks for itself
      }
      else if (space) this.toggle();
      else if (this.stagesShown && /^[1-5]$/.test(event.key)) this.show(Object.keys(RestViz.STAGES)[event.key - 1]);
      else return;
      event.preventDefault();
    }

    /* ---- drawing ---- */

    draw() {
      const { model, current, view: v } = this;
      if (!model) return;
      const step = model.steps[current];
      this.verdict.show(model, model.isBaseline ? null : this.models.baseline);
      const total = model.steps.length;
      v.where.textContent = !total ? "waiting for the first step"
        : `step ${current} of ${total - 1}${this.live ? (this.follow ? " · live" : " · still running, End follows") : ""}`;
      v.middle.hidden = !step;
      v.back.disabled = v.first.disabled = current <= 0;
      v.next.disabled = v.last.disabled = current >= total - 1;
      v.play.disabled = this.live || total < 2;
      this.line(v.from, model.from, "done");
      this.keep.show();
      if (!step) return;
      const match = Math.max(0, ...step.matches.map((match) => match.length));
      this.answer.show(current, match, this.live && this.follow);
      if (this.pointed !== step) this.answer.highlight(-1); // it was a token of another step
      this.pointed = step;
      this.timeline.show(current, `step ${current}, ${RestViz.plural(model.emitted(current), "token")}`);
      v.treeTitle.textContent = step.index === 0 ? "Step 0" : `Step ${step.index}: why this tree`;
      const counts = RestViz.stages(step), stage = counts ? this.stage : "verify";
      this.drawStages(counts, stage);
      v.why.replaceChildren(...RestViz.why(model, step, stage).map(([tag, text]) => (tag ? el(tag, { text }) : text)));
      this.tree.draw(model, step, v.pruned.checked, this.live, stage);
      if (!v.mask.hidden) this.mask.draw(model, step);
      if (!v.list.hidden) this.list.draw(model, step);
      v.pruned.parentNode.hidden = stage !== "verify";
      v.prunedLabel.textContent = `show ${RestViz.count(RestViz.pruned(step))} pruned`;
      v.unrecorded.textContent = step.unrecorded ? `${RestViz.count(step.unrecorded)} more not kept` : "";
      this.inspector.step(model, step, stage);
      this.charts.mark(current);
      this.whatIf.show(model, step, stage, v.pruned.checked);
      this.watch(null);
    }

    /** Buttons with what each stage of a RASD step left; hidden for every other step. */
    drawStages(counts, stage) {
      const { view: v, stageButtons: buttons } = this;
      v.stages.hidden = !counts;
      if (this.model.header !== this.legended?.header || stage !== this.legended.stage) {
        this.legended = { header: this.model.header, stage };
        v.treeLegend.replaceChildren(...RestViz.legendOfTree(this.model.header, stage));
      }
      if (!counts) return;
      const texts = {
        retrieve: `${counts.retrieved} found`, prune: `${counts.kept} stay`, draft: `+ ${counts.model} drafted`,
        fuse: `${counts.fused} to verify, ${counts.shared} shared`, verify: `${counts.accepted} accepted`,
      };
      for (const [name, button] of Object.entries(buttons)) {
        button.lastChild.textContent = texts[name];
        button.setAttribute("aria-checked", String(name === stage));
        button.tabIndex = name === stage ? 0 : -1;
      }
    }

    show(stage) {
      this.stage = stage;
      this.draw();
    }

    /* ---- text, tree and timeline point at each other ---- */

    pointNode(node, byKey = false, where = "tree") {
      const { model, current } = this, step = model.steps[current];
      for (const view of [this.tree, this.mask, this.list]) view.point(node);
      this.inspector.node(model, step, node);
      if (byKey) this.say(this.inspector.summary);
      this.watch(node, where);
      const first = model.start[current];
      const k = node === -1 ? first + step.accepted.length : step.accepted.indexOf(node);
      this.answer.highlight(node === -1 ? k : k >= 0 ? first + k : -1);
    }

    /** A token of another step is told about as well; its node is in that step's tree. */
    pointToken(token, byKey = false) {
      this.timeline.highlight(token ? token.step : -1);
      if (!token) return;
      const node = token.node ?? -1, here = token.step === this.current;
      for (const view of [this.tree, this.mask, this.list]) view.point(here ? node : null);
      this.inspector.node(this.model, this.model.steps[token.step], node, !here);
      if (byKey) this.say(this.inspector.summary);
    }

    say(text) { this.view.said.textContent = text; }

    destroy() {
      this.pause();
      document.removeEventListener("keydown", this.onKey);
      this.host.replaceChildren();
    }
  }

  RestViz.createPlayer = (host, options) => new Player(host, options);
})((globalThis.RestViz = globalThis.RestViz || {}));
