/* The player's static parts: panels, controls, legends, and what is on screen before the first run. */
(function (RestViz) {
  "use strict";
  const { el, svg } = RestViz;

  // Drawn, not typed: not every machine has a font with these signs.
  const ICONS = {
    first: "M2 2h2v10H2zM12 2v10L5 7z", back: "M10 2v10L3 7z", play: "M3 1v12l10-6z", pause: "M2 1h4v12H2zM8 1h4v12H8z",
    next: "M4 2v10l7-5zM0 0", last: "M2 2v10l7-5zM10 2h2v10h-2z",
  };
  const picture = (name) => svg("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));

  const icon = (name, label, keys) =>
    el("button", { type: "button", class: "rv-icon", title: `${label} (${keys})`, "aria-label": label }, picture(name));

  const swatch = (kind, text) => el("li", {}, el("span", { class: "rv-tok k-" + kind, "aria-hidden": "true", text: "abc" }), text);

  function shape(kind, mark, source = "") {
    const box = svg("svg", { viewBox: "0 0 30 16", class: "rv-shape", "aria-hidden": "true" });
    const group = svg("g", { class: `rv-node n-${kind} s-${source}` });
    group.append(svg("rect", { x: 3, y: 2, width: 25, height: 12, rx: kind === "bonus" ? 6 : kind === "root" ? 1 : RestViz.CORNERS[source] ?? 3 }));
    if (source === "fused") group.append(svg("rect", { x: 5, y: 4, width: 21, height: 8, rx: 2, class: "inner" }));
    if (mark) group.append(svg("text", { x: 15.5, y: 11.5, "text-anchor": "middle", class: "mark", text: mark }));
    if (kind === "declined") {
      group.append(svg("line", { class: "cross", x1: 0, y1: 5, x2: 6, y2: 11 }), svg("line", { class: "cross", x1: 0, y1: 11, x2: 6, y2: 5 }));
    }
    box.append(group);
    return box;
  }

  const FATE_LEGEND = [
    ["root", "", "root"], ["accepted", "✓", "accepted"], ["bonus", "◆", "target's own"],
    ["declined", "", "rejected"], ["unreached", "", "not reached"], ["pruned_budget", "", "pruned"],
  ];
  const ORIGINS = { datastore: "from the datastore", context: "from the text itself", model: "from the draft model", fused: "from several" };

  /** Where tokens of this method can come from. */
  function origins(header) {
    const { retrievers } = header.parameters;
    const mixed = ["datastore", "context"].filter((name) => retrievers === "both" || retrievers === name);
    return { rest: ["datastore"], pld: ["context"], eagle: ["model"], assistant: ["model"], rasd: [...mixed, "model", "fused"] }[header.method] ?? [];
  }

  function legendOfAnswer(header) {
    return [...origins(header).map((kind) => swatch(kind, ORIGINS[kind])), swatch("bonus", "the target's own"),
      el("li", {}, el("span", { class: "rv-seam", "aria-hidden": "true" }), "a step begins"),
      ...(["rest", "pld", "rasd"].includes(header.method)
        ? [el("li", {}, el("span", { class: "rv-ptok in-match match-first match-last", "aria-hidden": "true", text: "abc" }), "matched suffix")] : [])];
  }

  function legendOfTree(header, stage) {
    const item = (picture, text) => el("li", {}, picture, text);
    const small = (text, meaning) => item(el("span", { class: "rv-small", text }), meaning);
    if (stage === "verify") return [...FATE_LEGEND.map(([kind, mark, text]) => item(shape(kind, mark), text)), small("×12", "found 12 times"), ...strength(stage)];
    const kinds = origins(header).filter((kind) => stage === "fuse" || (stage === "draft") === (kind === "model")).filter((kind) => stage === "fuse" || kind !== "fused");
    return [...kinds.map((kind) => item(shape("plain", "", kind), ORIGINS[kind])),
      ...(stage === "prune" ? [item(shape("pruned_first_token", ""), "dropped"), small("rank 3", "the draft model's third choice")] : []),
      ...(stage === "draft" ? [small("12 %", "of the path, says the draft model")] : stage === "retrieve" ? [small("×12", "found 12 times")] : []), ...strength(stage)];
  }

  /** What the strength of a node's colour says. */
  function strength(stage) {
    const { of, stronger } = RestViz.STAGES[stage];
    return [el("li", { title: of }, el("span", { class: "rv-strength", "aria-hidden": "true" }), `stronger: ${stronger}`)];
  }

  /** A sketch for the empty page: shapes only, so that it cannot be taken for a result. */
  function sketch(stage) {
    const box = svg("svg", { viewBox: "0 -4 200 88", class: "rv-sketch", "aria-hidden": "true" });
    const at = [[6, 34, "root"], [56, 12, "a"], [56, 56, "b"], [104, 2, "c"], [104, 26, "d"], [104, 56, "e"], [152, 26, "f"]];
    const links = [[0, 1], [0, 2], [1, 3], [1, 4], [2, 5], [4, 6]];
    const good = stage === 3 ? new Set([1, 4]) : new Set();
    for (const [a, b] of links) {
      box.append(svg("path", {
        class: good.has(b) ? "e-accepted" : "e-declined", "stroke-width": good.has(b) ? 3 : 1.2,
        d: `M${at[a][0] + 36} ${at[a][1] + 8}C${at[a][0] + 46} ${at[a][1] + 8} ${at[b][0] - 10} ${at[b][1] + 8} ${at[b][0]} ${at[b][1] + 8}`,
      }));
    }
    at.forEach(([x, y], i) => {
      const kind = i === 0 ? "root" : good.has(i) ? "accepted" : stage === 3 && i === 6 ? "bonus" : stage === 3 ? "unreached" : "plain";
      const group = svg("g", { class: "rv-node n-" + kind });
      group.append(svg("rect", { x, y, width: 36, height: 16, rx: kind === "bonus" ? 8 : kind === "root" ? 2 : 4 }));
      if (good.has(i)) group.append(svg("text", { x: x + 18, y: y + 12, class: "mark", "text-anchor": "middle", text: "✓" }));
      if (kind === "bonus") group.append(svg("text", { x: x + 18, y: y + 12, class: "mark", "text-anchor": "middle", text: "◆" }));
      box.append(group);
    });
    if (stage === 2) box.append(svg("rect", { x: 1, y: -3, width: 193, height: 80, rx: 8, class: "rv-lasso" }));
    return box;
  }

  const CARDS = [
    ["1  Retrieve", "The last tokens are looked up in a datastore. Whatever followed them there becomes a draft tree."],
    ["2  Verify", "The target model reads the whole tree in one forward, which costs little more than one token."],
    ["3  Accept", "Drafted tokens the target agrees with are kept, and it adds one of its own: the same text in fewer forwards."],
  ];

  function build(host) {
    const v = {};
    v.note = el("div", { class: "rv-note", role: "status", hidden: true });
    v.alert = el("div", { class: "rv-note", role: "alert", "data-kind": "error", hidden: true });
    v.empty = el("section", { class: "rv-empty", "aria-label": "What you will see" },
      el("h2", { class: "rv-title", text: "Speculative decoding, one step at a time" }),
      el("div", { class: "rv-cards" }, ...CARDS.map(([title, text], i) =>
        el("div", { class: "rv-card" }, sketch(i + 1), el("h3", { text: title }), el("p", { text }))) ),
      el("p", { class: "rv-hint", text: "Choose an example or write a prompt, then press Run. Plain autoregressive decoding of the same prompt is measured first; "
        + "then you see every draft tree, what the target accepted from it, and the speedup as it happens. The sketches above are not results." }));
    v.from = el("p", { class: "rv-from", hidden: true });
    v.verdict = el("section", { class: "rv-verdict", "aria-label": "Result" });
    v.answer = el("div", { class: "rv-answer", tabindex: 0, role: "group", "aria-label": "Answer, token by token. Up and down arrows visit its tokens, Enter goes to a token's step." });
    v.first = icon("first", "First step", "Home");
    v.back = icon("back", "Step back", "←");
    v.play = icon("play", "Play", "Space");
    v.next = icon("next", "Step forward", "→");
    v.last = icon("last", "Last step", "End");
    v.pace = el("select", { "aria-label": "Playback pace" },
      el("option", { value: "1000", text: "1 step/s" }), el("option", { value: "400", text: "2.5 steps/s", selected: true }),
      el("option", { value: "0", text: "as recorded" }));
    v.where = el("span", { class: "rv-where" });
    v.timeline = el("div", { class: "rv-timeline" });
    v.sticky = el("section", { class: "rv-sticky", "aria-label": "Answer and timeline" },
      el("div", { class: "rv-head" }, (v.answerTitle = el("h2", { text: "Answer" })),
        (v.answerLegend = el("ul", { class: "rv-legend" }))),
      v.answer,
      el("div", { class: "rv-controls" }, v.first, v.back, v.play, v.next, v.last, v.where, v.pace),
      v.timeline);
    v.why = el("p", { class: "rv-why" });
    v.treeTitle = el("h2", {});
    v.pruned = el("input", { type: "checkbox" });
    v.prunedLabel = el("span");
    v.unrecorded = el("span", { class: "rv-wide" });
    v.fold = el("input", { type: "checkbox" });
    v.foldLabel = el("label", { title: "Chains without a branch become one box; click it, or press Enter, to unfold it" }, v.fold, "fold chains");
    v.tree = el("div", { class: "rv-tree" }, el("div", { class: "rv-check" }, v.foldLabel, el("label", {}, v.pruned, v.prunedLabel), v.unrecorded));
    const toggle = (text, title) => el("button", { type: "button", class: "rv-button", "aria-pressed": "false", text, title });
    v.maskButton = toggle("Mask", "The tree attention mask beside the tree: which node can see which");
    v.listButton = toggle("List", "The nodes as a table");
    v.mask = el("figure", { class: "rv-mask", hidden: true });
    v.list = el("div", { class: "rv-list rv-scroll", tabindex: 0, role: "group", "aria-label": "Table of the nodes", hidden: true });
    v.inspector = el("aside", { class: "rv-inspector", tabindex: 0, "aria-live": "off", "aria-label": "Details" });
    v.middle = el("section", { class: "rv-middle", "aria-label": "Draft tree" },
      el("div", { class: "rv-head" }, v.treeTitle, (v.treeLegend = el("ul", { class: "rv-legend" })), el("div", { class: "rv-views" }, v.maskButton, v.listButton)),
      (v.stages = el("div", { class: "rv-stages", role: "radiogroup", "aria-label": "Stage of the step", hidden: true })),
      v.why, el("div", { class: "rv-split" }, v.tree, v.mask, v.inspector), v.list, (v.whatIf = el("div", { class: "rv-whatif", hidden: true })));
    v.charts = el("section", { class: "rv-charts", "aria-label": "Charts" });
    v.compare = el("section", { class: "rv-compare", "aria-label": "Compare runs" });
    v.main = el("div", { class: "rv-main", hidden: true }, v.from, v.verdict, v.sticky, v.middle, v.charts, v.compare);
    v.keep = el("section", { class: "rv-keep", "aria-label": "Keep and open" });
    v.foot = el("footer", { class: "rv-foot" });
    v.said = el("div", { class: "rv-said", role: "status" }); // what was reached by key, for screen readers
    v.keys = el("p", { class: "rv-hint", text: "Keys: ← → step · space play · Home End · 1–5 stages of RASD · in the answer ↑ ↓ tokens, in the tree ↑ ↓ nodes, + − 0 zoom · drag to pan, Ctrl + wheel to zoom" });
    host.replaceChildren(el("div", { class: "rv-lines" }, v.note, v.alert), v.empty, v.main, v.keep, v.keys, v.foot, v.said);
    v.keys.hidden = true;
    return v;
  }

  Object.assign(RestViz, { buildView: build, picture, legendOfAnswer, legendOfTree });
})((globalThis.RestViz = globalThis.RestViz || {}));
