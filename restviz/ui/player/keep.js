/* Keeping a run: as a trace file, as one HTML page, its steps as a table, its tree as a picture; and opening traces. */
(function (RestViz) {
  "use strict";
  const { el } = RestViz;

  const LONGEST = 8000; // characters of a link
  const SCHEMAS = [1, 2]; // of restviz/trace.py
  const RUNS = /\.open\(\/\* runs \*\/\)/; // where they go in the template of restviz/ui/export.py

  /** The trace of a run, as restviz/trace.py writes it. */
  function toTrace(model) {
    return {
      header: model.header, steps: model.steps, finish: model.finish, check: model.check ?? null,
      text: model.answer ?? model.tokens.map((token) => token.text).join(""), token_text: model.text, token_bytes: model.bytes,
    };
  }

  const LISTS = ["token", "parent", "source", "count", "logp", "target_p", "fate"];
  const OBJECTS = ["parameters", "model", "environment"], ARRAYS = ["prompt_ids", "datastores"];

  /** Whether everything that the player reads is there; restviz/trace.py looks closer. */
  function shaped({ header, steps, finish, token_text, token_bytes }) {
    const lists = (object, names) => names.every((name) => Array.isArray(object[name])), numbers = (object) => Object.values(object).every(Number.isFinite);
    const step = ({ nodes, times, ...rest }, i) => {
      const n = nodes.token.length, there = (node) => Number.isInteger(node) && node > 0 && node < n;
      return rest.index === i && lists(nodes, LISTS) && LISTS.every((name) => nodes[name].length === n) && n > 0
        && nodes.parent.every((parent, i) => Number.isInteger(parent) && parent < i && (i ? parent >= 0 : parent === -1)) // so there is no circle
        && nodes.fate.every((fate, i) => (i ? fate in RestViz.FATES || fate === "rejected" : fate === "root"))
        && numbers(times) && Number.isFinite(RestViz.TraceModel.ms({ times })) && lists(rest, ["accepted", "looks", "matches"]) && rest.accepted.every(there)
        && rest.looks.every((look) => lists(look, ["token", "p"])) && (!rest.first || lists(rest.first, ["token", "p", "tested"]));
    };
    try {
      return OBJECTS.every((name) => header[name] && typeof header[name] === "object") && lists(header, ARRAYS) && typeof header.created === "string"
        && steps.length > 0 && steps.every(step) && (!finish || typeof finish.message === "string") && Boolean(token_text && token_bytes);
    } catch { return false; } // something that has parts is not there
  }

  /** The trace in a file's bytes, gzipped or not.  Throws an Error with a sentence for people. */
  async function readTrace(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let trace;
    try {
      const stream = new Blob([bytes]).stream();
      const plain = bytes[0] === 0x1f && bytes[1] === 0x8b ? stream.pipeThrough(new DecompressionStream("gzip")) : stream;
      trace = JSON.parse(await new Response(plain).text());
    } catch {
      throw new Error(`${file.name} is not a RestViz trace: it is not (gzipped) JSON or it is cut short.`);
    }
    const header = trace?.header, version = header?.schema_version;
    if (version === undefined) throw new Error(`${file.name} is not a RestViz trace: it has no header with a schema version.`);
    if (!SCHEMAS.includes(version)) throw new Error(`${file.name} has trace schema version ${version} and this page reads version ${SCHEMAS.at(-1)}: record the run again, or open it with the RestViz that made it.`);
    if (!shaped(trace)) throw new Error(`${file.name} is damaged: its steps are not what a trace has there.`);
    header.schema_version = SCHEMAS.at(-1); // what forwards cost was told in another way in version 1
    delete header.environment.calibration;
    return trace;
  }

  const COLUMNS = ["step", "position", "tokens", "accepted", "verified nodes", "pruned nodes", "match length", "hits",
    "retrieve ms", "draft ms", "fuse ms", "forward ms", "accept ms", "other ms", "text"];

  /** One line a step, as CSV (RFC 4180). */
  function toTable(model) {
    const rows = model.steps.map((step) => {
      const t = step.times, first = model.start[step.index];
      const best = step.matches.reduce((a, b) => (b.length > (a?.length ?? 0) ? b : a), null);
      return [step.index, step.position, model.emitted(step.index), step.accepted.length, RestViz.verified(step), RestViz.pruned(step) + step.unrecorded,
        best?.length ?? 0, best?.hits ?? 0, ...[t.retrieve, t.draft, t.fuse, t.forward, t.accept, t.other].map((x) => x.toFixed(3)),
        model.tokens.slice(first, first + model.emitted(step.index)).map((token) => token.text).join("")];
    });
    const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
    return [COLUMNS, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  /** The tree on screen as an SVG file of its own: the whole tree, with the colours of the page. */
  function toPicture(tree, theme) {
    const { width, height } = tree.shape, copy = tree.svg.cloneNode(true), edge = 8;
    const rules = [...document.styleSheets].flatMap((sheet) => { try { return [...sheet.cssRules]; } catch { return []; } })
      .filter((rule) => /^\.rv(\[data-theme="dark"\])? *\{|\.rv-(node|edges|heads)/.test(rule.cssText)).map((rule) => rule.cssText);
    copy.firstChild.setAttribute("transform", `translate(${edge} ${edge})`);
    copy.prepend(RestViz.svg("style", { text: rules.join("\n") + "\n* { animation: none !important }" }),
      RestViz.svg("rect", { width: "100%", height: "100%", style: "fill: var(--sunk)" }));
    for (const node of copy.querySelectorAll(".hover")) node.classList.remove("hover");
    const size = [width + 2 * edge, height + 2 * edge].map(Math.ceil);
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", class: "rv", "data-theme": theme, width: size[0], height: size[1], viewBox: `0 0 ${size.join(" ")}` })) copy.setAttribute(name, value);
    return new XMLSerializer().serializeToString(copy);
  }

  /** A PNG of an SVG file, twice its size. */
  async function toPixels(text) {
    const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })), image = new Image();
    try {
      image.src = url;
      await image.decode();
      const canvas = el("canvas", { width: 2 * image.naturalWidth, height: 2 * image.naturalHeight });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    } finally { URL.revokeObjectURL(url); }
  }

  const packed = (text) => new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).blob();

  function save(name, content, type) {
    const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  /** Buttons for the run on screen.  `player` gives `model`, `models`, `tree`, `live`; `template` is fetched for HTML;
      `link` is the page's own address, without a query: null where no page can restore one. */
  class Keep {
    constructor(host, player, template, link) {
      this.player = player;
      const button = (text, title, action) => el("button", { type: "button", class: "rv-button", text, title, on: { click: () => this.try(action) } });
      this.file = el("input", { type: "file", accept: ".json,.gz", hidden: true, "aria-label": "Trace file", on: { change: () => this.try(() => this.open()) } });
      this.needRun = [
        button("Trace", "Everything of this run, as gzipped JSON", async () => save(this.name("json.gz"), await packed(JSON.stringify(toTrace(player.model))))),
        button("Steps as CSV", "A line a step", () => save(this.name("csv"), toTable(player.model), "text/csv")),
        button("Tree as SVG", "The tree on screen", () => save(this.name("svg"), toPicture(player.tree, player.host.dataset.theme), "image/svg+xml")),
        button("Tree as PNG", "The tree on screen", async () => save(this.name("png"), await toPixels(toPicture(player.tree, player.host.dataset.theme)))),
        ...(link ? [button("Copy link", "A link that restores prompt, method and parameters; for a recorded run, the run and the step", () => this.link(link))] : []),
        ...(template ? [button("Web page", "This run and those that it is compared with, in one HTML file that needs no network", async () => save(this.name("html"), await this.page(template), "text/html"))] : []),
      ];
      host.append(el("h2", { text: "Keep" }), ...this.needRun,
        button("Open a trace…", "A trace that was kept before", () => this.file.click()), this.file);
    }

    /** Nothing to keep before there is a run, and none is whole while it runs. */
    show() {
      for (const button of this.needRun) button.disabled = !this.player.model?.steps.length || this.player.live;
    }

    async try(action) {
      try {
        await action();
        this.player.fail("");
      } catch (error) { this.player.fail(error.message); }
    }

    name(ending) {
      const { header } = this.player.model;
      return `restviz-${header.method}-${header.created.replace(/[^0-9]/g, "").slice(0, 14)}.${ending}`;
    }

    async page(template) {
      const response = await fetch(template).catch(() => null);
      if (!response?.ok) throw new Error("The web page could not be made: RestViz does not answer. Is it still running?");
      const { model, models, compare } = this.player, baseline = model === models.baseline ? null : models.baseline;
      const others = compare.models.filter((other) => other.finish && other !== model && other !== baseline);
      const runs = JSON.stringify({ trace: toTrace(model), baseline: baseline && toTrace(baseline), others: others.map(toTrace) }).replaceAll("<", "\\u003c");
      return (await response.text()).replace(RUNS, () => `.open(${runs})`);
    }

    /** The query of a run that comes with RestViz is its name, method and step; of another its prompt and settings. */
    query() {
      const { header, link } = this.player.model;
      return new URLSearchParams(link ? { ...link, method: header.method, step: this.player.current }
        : { method: header.method, ...header.parameters, prompt: header.prompt });
    }

    async link(page) {
      const url = new URL(page);
      url.search = this.query();
      if (url.href.length > LONGEST) throw new Error("The prompt is too long for a link: keep the trace instead.");
      try {
        await navigator.clipboard.writeText(url.href);
        this.player.note("The link is copied.", false);
      } catch { // not allowed, or not over http
        history.replaceState(null, "", url);
        this.player.note("The link is in the address bar, to be copied from there.", false);
      }
    }

    async open() {
      const file = this.file.files[0];
      this.file.value = "";
      if (!file) return;
      if (this.player.live) throw new Error("A run is under way: wait for its end, or stop it, before you open a trace.");
      this.player.open({ trace: await readTrace(file), baseline: null, from: `Opened from ${file.name}.` });
    }
  }

  Object.assign(RestViz, { Keep, toTrace, toTable, toPicture, readTrace });
})((globalThis.RestViz = globalThis.RestViz || {}));
