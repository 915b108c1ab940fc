/* The figures above everything: speedup, tokens per second of both runs, M, forwards, and whether the texts agree. */
(function (RestViz) {
  "use strict";
  const { el, count, plural, quote } = RestViz;

  const UNSTEADY = 2; // alone on a machine the two percentiles are within a third of each other

  const speed = (x) => x.toFixed(1);

  class Verdict {
    constructor(host) {
      this.big = el("strong", { class: "rv-big" });
      this.bigNote = el("span", { class: "rv-small" });
      this.figures = el("dl", { class: "rv-figures" });
      this.basis = el("p", { class: "rv-small" });
      this.warning = el("p", { class: "rv-warning", hidden: true });
      this.badge = el("p", { class: "rv-badge", role: "status" });
      host.append(el("div", { class: "rv-headline" }, this.big, this.bigNote), this.figures,
        el("div", { class: "rv-basis" }, this.badge, this.warning, this.basis));
    }

    show(run, baseline) {
      const measuring = run.isBaseline || !baseline;
      if (measuring) {
        this.big.textContent = run.speed ? speed(run.speed) : "–";
        this.bigNote.textContent = "tokens/s, autoregressive decoding: one forward per token";
      } else {
        const reference = baseline.speedOf(run.tokens.length);
        const ratio = run.speed && reference ? run.speed / reference : 0;
        this.big.textContent = ratio ? ratio.toFixed(2) + "×" : "–";
        this.bigNote.textContent = !ratio ? "speedup, once the first draft is verified"
          : (ratio >= 1 ? "the speed" : "the speed (slower)") + " of autoregressive decoding, measured on this prompt";
      }
      const rows = [];
      if (!run.isBaseline) rows.push([RestViz.method(run.header.method), speed(run.speed) + " tokens/s", `${count(run.decoded)} tokens in ${run.duration.toFixed(2)} s`]);
      const base = run.isBaseline ? run : baseline;
      if (base) rows.push(["autoregressive", speed(base.speed) + " tokens/s", `${count(base.decoded)} tokens in ${base.duration.toFixed(2)} s`]);
      if (!run.isBaseline) {
        rows.push(["M, mean generated length", run.meanLength.toFixed(2) + " tokens", "per forward; baseline: 1"]);
        rows.push(["target forwards", count(run.forwards), `for ${plural(run.decoded, "token")}`]);
      }
      this.figures.replaceChildren(...rows.map(([name, value, note]) =>
        el("div", { title: note }, el("dt", { text: name }), el("dd", { text: value }), el("dd", { class: "rv-small", text: note }))));
      this.tell(run, baseline);
      this.warn(base);
      const { environment: e, parameters: p } = run.header;
      const sampling = p.temperature > 0 ? `sampled at temperature ${p.temperature}, seed ${p.seed}` : "greedy";
      this.basis.textContent = `prefill not counted · ${sampling} · ${e.device_name || e.device}, ${e.dtype}, ${plural(e.threads, "thread")}`;
    }

    /** Every forward of the baseline does the same work: when their times differ much, the machine was busy. */
    warn(base) {
      const spread = base && base.finish && base.spread;
      this.warning.hidden = !spread || spread[1] < UNSTEADY * spread[0];
      if (this.warning.hidden) return;
      this.warning.textContent = `⚠ Unsteady: baseline forwards took ${RestViz.ms(spread[0])} to ${RestViz.ms(spread[1])} `
        + "(10th to 90th percentile), so this machine was busy and the speedup is rough.";
    }

    tell(run, baseline) {
      const [state, mark, text] = this.judge(run, baseline);
      this.badge.dataset.state = state;
      const line = mark + " " + text;
      if (this.badge.textContent !== line) this.badge.textContent = line;
    }

    judge(run, baseline) {
      if (run.isBaseline) return ["none", "–", run.finish ? "This run is the baseline that other methods are compared with." : "Measuring plain autoregressive decoding."];
      if (!baseline) return ["none", "–", "There is no baseline to compare this run with."];
      const { state, at } = RestViz.compare(run, baseline);
      const n = count(at);
      if (state === "identical") return [state, "✓", `Identical to autoregressive decoding, token by token: all ${n} tokens.`];
      if (state === "running") return [state, "…", `Identical to autoregressive decoding so far: ${plural(at, "token")}.`];
      if (state === "stopped") return [state, "✓", `The first ${plural(at, "token")} are identical to autoregressive decoding; the run was stopped there.`];
      if (state === "length") {
        return ["differs", "≠", `The first ${n} tokens are identical, the lengths are not: ${count(run.tokens.length)} here, ${count(baseline.tokens.length)} in the baseline.`];
      }
      const here = quote(run.label(run.tokens[at].id)), there = quote(baseline.label(baseline.tokens[at].id));
      // one look of the target for every token it emitted, in order
      const look = baseline.steps.flatMap((step) => step.looks)[at];
      const p = (id) => (look && look.token.includes(id) ? look.p[look.token.indexOf(id)].toFixed(4) : "less than its top ten");
      const gap = ` The target's probabilities there: ${p(run.tokens[at].id)} and ${p(baseline.tokens[at].id)}.`;
      const why = run.header.environment.bit_exact ? "" : " This device and dtype are not bit-exact, so near-ties can flip.";
      return [state, "≠", `Differs from autoregressive decoding at token ${count(at + 1)}: ${here} here, ${there} there.${gap}${why}${this.checked(run.check)}`];
    }

    /** What the teacher-forced check found: rounding turns near-ties, a defect does more. */
    checked(check) {
      if (!check) return "";
      const agreed = ` A forward over this whole text would choose ${count(check.tokens - check.differs.length)} of its ${plural(check.tokens, "token")}`;
      if (!check.differs.length) return agreed + ".";
      const widest = check.gap.includes(null) ? "a token is ruled out by top-k or top-p there" : `the others miss by at most ${Math.max(...check.gap).toFixed(3)} in logits`;
      return `${agreed}; ${widest}.`;
    }
  }

  RestViz.Verdict = Verdict;
})((globalThis.RestViz = globalThis.RestViz || {}));
