/* A run as the browser holds it: the trace (see restviz/trace.py) plus what drawing needs again and again.
   Classic scripts under one name, RestViz: they load over http, from a file and inlined, without a build step. */
(function (RestViz) {
  "use strict";

  const DATASTORE = 1, CONTEXT = 2, MODEL = 4, STORE = 8; // bit STORE + i: the header's datastore i
  const METHODS = { autoregressive: "autoregressive", pld: "PLD", rest: "REST", eagle: "EAGLE", assistant: "assistant", rasd: "RASD" };
  const method = (name) => METHODS[name] ?? name;

  /** Kind of a source flag set: the class names used for colour, and its name for people. */
  function origin(flags) {
    const names = [];
    if (flags & DATASTORE) names.push("datastore");
    if (flags & CONTEXT) names.push("context");
    if (flags & MODEL) names.push("model");
    return { kind: names.length === 1 ? names[0] : names.length ? "fused" : "bonus", label: names.join(" + ") };
  }

  /** Names of the datastores that a node is from. */
  function stores(header, flags) {
    return header.datastores.filter((_, i) => flags & (1 << (STORE + i))).map((store) => store.name);
  }

  const DROPPED = new WeakMap();

  /** The nodes whose retrieved branch RASD pruned: its first token was tested and not among the likeliest.  The draft
      model may have drafted the same node, which then stays. */
  function dropped(step) {
    if (!DROPPED.has(step)) {
      const nodes = new Set(step.first?.tested.filter((test) => test.rank > step.first.k).map((test) => test.node));
      step.nodes.parent.forEach((parent, i) => nodes.has(parent) && nodes.add(i)); // parents come first
      DROPPED.set(step, nodes);
    }
    return DROPPED.get(step);
  }

  /** Flags of the trees that brought a node to where it is: not of a retrieved branch that was pruned beside the model's. */
  function source(step, i) {
    const flags = step.nodes.source[i];
    return flags & MODEL && dropped(step).has(i) ? MODEL : flags;
  }

  /** How many of a step's nodes were pruned, and how many were verified, the root not counted. */
  const pruned = (step) => step.nodes.fate.filter((fate) => fate.startsWith("pruned")).length;
  const verified = (step) => step.nodes.fate.length - 1 - pruned(step);

  /** Whether a node was in a retrieval tree, as large as its budget. */
  const retrieved = ({ nodes }, i) => Boolean(nodes.source[i] & (DATASTORE | CONTEXT)) && nodes.fate[i] !== "pruned_budget";

  /** What a step with a draft model and retrievers did, stage by stage; null for every other step. */
  function stages(step) {
    if (!step.first || !step.first.k && !step.matches.length) return null;
    const { fate } = step.nodes, every = fate.map((_, i) => i).slice(1);
    const found = every.filter((i) => retrieved(step, i)), kept = found.filter((i) => !dropped(step).has(i));
    const fused = every.filter((i) => !fate[i].startsWith("pruned")), model = (i) => step.nodes.source[i] & MODEL;
    return {
      retrieved: found.length, kept: kept.length, model: every.filter(model).length, fused: fused.length,
      over: fate.filter((one) => one === "pruned_cap").length, shared: fused.filter((i) => model(i) && kept.includes(i)).length,
      accepted: step.accepted.length,
    };
  }

  /** One line for a token's text: white space made visible, nothing interpreted. */
  function visible(text) {
    return text
      .replace(/\r?\n/g, "↵").replace(/\t/g, "⇥")
      .replace(/ {4,}/g, (run) => "␣×" + run.length).replace(/ /g, "·");
  }

  /** Turns tokens into text as they come.  Bytes of a character that is not complete yet are held back. */
  class Decoder {
    constructor() { this.utf8 = new TextDecoder("utf-8"); }
    next(text, hex) {
      if (hex === undefined) return this.rest() + text;
      return this.utf8.decode(new Uint8Array((hex.match(/../g) || []).map((byte) => parseInt(byte, 16))), { stream: true });
    }
    /** What is held back of a character that never got complete, as the sign for that. */
    rest() { return this.utf8.decode(); }
  }

  class TraceModel {
    constructor(header) {
      this.header = header;
      this.steps = [];
      this.finish = null;
      this.check = null;      // see `Check` in restviz/trace.py
      this.from = "";         // where it is from, for people, when it was not made just now
      this.link = null;       // the query that opens it again, when it comes with RestViz
      this.answer = null;     // the decoded answer, special tokens left out, once it is whole
      this.text = {};
      this.bytes = {};
      this.tokens = [];       // {id, text, step, node, kind, label, partial}
      this.start = [];        // index of a step's first token
      this.seconds = [];      // decoding time at the end of a step, prefill not counted
      this.decoder = new Decoder();
    }

    static from(trace) {
      const model = new TraceModel(trace.header);
      model.learn(trace.token_text, trace.token_bytes);
      for (const step of trace.steps) model.push(step);
      model.end(trace.finish, trace.check, trace.text);
      return model;
    }

    learn(text, bytes) { Object.assign(this.text, text || {}); Object.assign(this.bytes, bytes || {}); }

    push(step) {
      const nodes = step.nodes;
      this.start.push(this.tokens.length);
      for (const i of step.accepted) this.add(nodes.token[i], step.index, i, origin(source(step, i)));
      if (step.bonus !== null) this.add(step.bonus, step.index, null, { kind: "bonus", label: "target" });
      const before = this.seconds.length ? this.seconds[this.seconds.length - 1] : 0;
      this.steps.push(step);
      this.seconds.push(step.index === 0 ? 0 : before + TraceModel.ms(step) / 1000);
    }

    end(finish, check, answer) {
      Object.assign(this, { finish, check, answer });
      const last = this.tokens.at(-1);
      if (last) last.text += this.decoder.rest();
    }

    add(id, step, node, { kind, label }) {
      const hex = this.bytes[id];
      const text = this.decoder.next(this.text[id] ?? "", hex);
      this.tokens.push({ id, text, step, node, kind, label, partial: hex !== undefined });
    }

    /** Text of a token id on its own, for labels. */
    label(id) {
      if (this.bytes[id] !== undefined) return "⟨" + this.bytes[id] + "⟩";
      const text = this.text[id];
      return text === undefined ? "#" + id : text === "" ? "∅" : visible(text);
    }

    static ms(step) {
      const t = step.times;
      return t.retrieve + t.draft + t.fuse + t.forward + t.accept + t.other;
    }

    emitted(i) { return (i + 1 < this.start.length ? this.start[i + 1] : this.tokens.length) - this.start[i]; }

    get isBaseline() { return this.header.method === "autoregressive"; }
    get forwards() { return Math.max(this.steps.length - 1, 0); }
    get decoded() { return this.steps.length ? this.tokens.length - this.emitted(0) : 0; }
    get meanLength() { return this.forwards ? this.decoded / this.forwards : 0; }
    get duration() { return this.seconds.length ? this.seconds[this.seconds.length - 1] : 0; }
    get speed() { return this.duration > 0 ? this.decoded / this.duration : 0; }

    /** Tokens per second of the first `count` tokens (prefill and its token not counted). */
    speedOf(count) {
      let step = 0;
      while (step + 1 < this.steps.length && this.start[step] + this.emitted(step) < count) step++;
      const tokens = this.start[step] + this.emitted(step) - this.emitted(0);
      return this.seconds[step] > 0 ? tokens / this.seconds[step] : 0;
    }

    /** 10th and 90th percentile of the forwards' times in ms, prefill left out; null while there are few. */
    get spread() {
      const times = this.steps.slice(1).map((step) => step.times.forward).sort((a, b) => a - b);
      return times.length < 10 ? null : [0.1, 0.9].map((q) => times[Math.floor(q * (times.length - 1))]);
    }

    path(step, node) {
      const path = [];
      for (let i = node; i > 0; i = step.nodes.parent[i]) path.unshift(i);
      return path;
    }
  }

  /** Whether a run came to its own end: a shorter text is no repeat, and nothing to compare with. */
  const whole = ({ finish }) => Boolean(finish) && !["stopped", "failed"].includes(finish.reason);

  /** Token-by-token comparison of two runs: where they part, if they do, and whether one is simply not finished. */
  function compare(run, baseline) {
    const n = Math.min(run.tokens.length, baseline.tokens.length);
    for (let i = 0; i < n; i++) {
      if (run.tokens[i].id !== baseline.tokens[i].id) return { state: "differs", at: i };
    }
    if (!run.finish) return { state: "running", at: n };
    if (!whole(run) || !whole(baseline)) return { state: "stopped", at: n };
    if (run.tokens.length !== baseline.tokens.length) return { state: "length", at: n };
    return { state: "identical", at: n };
  }

  Object.assign(RestViz, { TraceModel, Decoder, compare, whole, origin, visible, method, stores, pruned, verified, stages, retrieved, dropped, source, DATASTORE, CONTEXT, MODEL });
})((globalThis.RestViz = globalThis.RestViz || {}));
