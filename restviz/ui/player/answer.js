/* The answer as a token stream: colour and underline say where a token came from, a bar marks where a step begins. */
(function (RestViz) {
  "use strict";
  const { el } = RestViz;

  const PROMPT_TAIL = 48; // prompt tokens shown before the answer: enough for the longest suffix match

  class AnswerView {
    /** @param onStep(i) a token of step i was chosen; onHover(token|null, by key) one is pointed at */
    constructor(host, { onStep, onHover }) {
      this.host = host;
      this.prompt = el("span", { class: "rv-prompt" });
      this.body = el("span", { class: "rv-body" });
      this.caret = el("span", { class: "rv-caret", "aria-hidden": "true" });
      host.append(this.prompt, this.body, this.caret);
      const tokenAt = (event) => event.target.closest?.("[data-i]");
      host.addEventListener("click", (event) => {
        const span = tokenAt(event);
        if (span) onStep(this.model.tokens[+span.dataset.i].step);
      });
      host.addEventListener("pointerover", (event) => {
        const span = tokenAt(event);
        onHover(span ? this.model.tokens[+span.dataset.i] : null);
      });
      host.addEventListener("pointerleave", () => onHover(null));
      host.addEventListener("keydown", (event) => {
        const by = { ArrowDown: 1, ArrowUp: -1 }[event.key], tokens = this.model.tokens;
        if (event.key === "Enter" && tokens[this.pointed]) onStep(tokens[this.pointed].step);
        else if (by && tokens.length) {
          const from = this.pointed >= 0 ? this.pointed : this.model.start[this.now] - (by > 0 ? 1 : 0);
          const k = Math.max(0, Math.min(tokens.length - 1, from + by));
          this.highlight(k);
          this.reveal(this.spans[k]);
          onHover(tokens[k], true);
        } else return;
        event.preventDefault();
        event.stopPropagation();
      });
    }

    reset(model) {
      this.model = model;
      this.groups = [];
      this.now = undefined; // the step that is shown: the groups after it are faded
      this.spans = [];
      this.marked = [];
      this.body.replaceChildren();
      this.prompt.replaceChildren();
      this.promptSpans = [];
      const ids = model.header.prompt_ids;
      const tail = ids.slice(-PROMPT_TAIL);
      if (tail.length < ids.length) {
        this.prompt.append(el("span", {
          class: "rv-more", text: `… ${ids.length - tail.length} more prompt tokens … `,
        }));
      }
      const decoder = new RestViz.Decoder();
      for (const id of tail) {
        const text = decoder.next(model.text[id] ?? "", model.bytes[id]); // a character of several tokens stands at its last
        const span = el("span", { class: "rv-ptok", text: text || (model.bytes[id] === undefined ? "" : "▫") });
        this.promptSpans.push(span);
        this.prompt.append(span);
      }
      model.steps.forEach((_, i) => this.append(i));
    }

    append(i) {
      const model = this.model;
      const group = el("span", { class: i > this.now ? "rv-step later" : "rv-step" });
      const first = model.start[i];
      for (let k = first; k < first + model.emitted(i); k++) {
        const token = model.tokens[k];
        const classes = ["rv-tok", "k-" + token.kind];
        if (k === first) classes.push("seam");
        if (token.partial && token.text === "") classes.push("partial");
        const span = el("span", { class: classes.join(" "), "data-i": k });
        // A line break gets a glyph, so that a token that is nothing but white space can be seen.
        for (const part of (token.text || "▫").split(/(\n)/)) {
          if (part === "\n") span.append(el("span", { class: "rv-nl", text: "↵", "aria-hidden": "true" }), "\n");
          else if (part) span.append(part);
        }
        this.spans.push(span);
        group.append(span);
      }
      this.groups.push(group);
      this.body.append(group);
    }

    /** Show the text as it was after step i: later steps fade, and the matched suffix is outlined. */
    show(i, match, live) {
      const before = this.groups[this.now];
      before?.classList.remove("now");
      this.groups[i]?.classList.add("now");
      // only what lies between: a long answer has thousands of tokens
      for (let k = Math.min(this.now ?? -1, i) + 1; k <= Math.max(this.now ?? this.groups.length - 1, i); k++) this.groups[k].classList.toggle("later", k > i);
      this.now = i;
      for (const span of this.marked) span.classList.remove("in-match", "match-first", "match-last");
      this.marked = [];
      if (match > 0) {
        const text = this.spans.slice(Math.max(0, this.model.start[i] - match), this.model.start[i]);
        this.marked = [...(text.length < match ? this.promptSpans.slice(text.length - match) : []), ...text];
        this.marked.forEach((span) => span.classList.add("in-match"));
        this.marked[0]?.classList.add("match-first");
        this.marked[this.marked.length - 1]?.classList.add("match-last");
      }
      this.caret.hidden = !live;
      this.reveal(live ? this.caret : this.groups[i]);
    }

    /** Scroll inside the panel only: the page itself must not jump. */
    reveal(target) {
      if (!target) return;
      const box = this.host.getBoundingClientRect(), at = target.getBoundingClientRect();
      if (at.bottom > box.bottom - 8) this.host.scrollTop += at.bottom - box.bottom + 12;
      else if (at.top < box.top + 8) this.host.scrollTop += at.top - box.top - 12;
    }

    highlight(k) {
      this.spans[this.pointed]?.classList.remove("hover");
      this.spans[k]?.classList.add("hover");
      this.pointed = k;
    }
  }

  RestViz.AnswerView = AnswerView;
})((globalThis.RestViz = globalThis.RestViz || {}));
