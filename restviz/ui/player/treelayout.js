/* Where the nodes of a step's draft tree go.  Pure: a step in, boxes and edges out.

   Left to right: a column a token ahead, a row a leaf.  The first child stays on its parent's row, so a chain of
   tokens reads like text.  Siblings are ordered by how often they were retrieved; what was pruned comes last. */
(function (RestViz) {
  "use strict";

  const FOLD = 3; // nodes of a chain that is folded, at least
  const ROW = 27, HEIGHT = 21, GAP = 18, PAD = 7, HEAD = 24, CHAR = 6.95, SMALL = 5.7, MOST_CHARS = 16;

  const FATES = {
    root: { label: "root", text: "the last token of the text so far; its continuation is what is being guessed" },
    accepted: { label: "accepted", text: "the target would have written exactly this token: it is kept" },
    declined: { label: "rejected", text: "the target looked here and wanted another token" },
    unreached: { label: "rejected, not reached", text: "verified in the same forward, but an earlier token of its path was refused" },
    pruned_budget: { label: "pruned: budget", text: "found, but less often than the nodes that fit the budget; never verified" },
    pruned_cap: { label: "pruned: cap", text: "in the fused tree, but less likely than the nodes that fit its cap; never verified" },
    pruned_first_token: { label: "pruned: first token", text: "its first token is not among the draft model's choices; never verified" },
    plain: { label: "drafted", text: "proposed; the target has not seen it at this stage" },
    bonus: { label: "target's own token", text: "what the target writes after the accepted path: every step yields at least this one" },
  };

  /** What became of a node, told apart finer than the trace does: did the target look at it, or never get there? */
  function fate(step, i) {
    const given = step.nodes.fate[i];
    if (given !== "rejected") return given;
    const parent = step.nodes.parent[i];
    if (step.bonus === null && parent === (step.accepted.at(-1) ?? 0)) return "unreached"; // the answer ended at its parent
    return parent === 0 || step.nodes.fate[parent] === "accepted" ? "declined" : "unreached";
  }

  /* The stages of RASD's drafting that a step can be looked at in; every other method has the last one only. */
  const STAGES = {
    retrieve: { label: "Retrieve", stronger: "found more often", of: "share of the continuations that were found", origins: 3, shows: RestViz.retrieved, kind: () => "plain" },
    prune: { label: "Prune", stronger: "found more often", of: "share of the continuations that were found", origins: 3, shows: RestViz.retrieved, kind: (step, i) => (RestViz.dropped(step).has(i) ? "pruned_first_token" : "plain") },
    draft: { label: "Draft", stronger: "likelier for the draft model", of: "the draft model's probability of the path", origins: 4, shows: ({ nodes }, i) => nodes.source[i] & RestViz.MODEL, kind: () => "plain" },
    fuse: { label: "Fuse", stronger: "likelier, or found more often", of: "the draft model's probability of the path, or the share of the continuations that were found", origins: 7, shows: ({ nodes }, i) => !nodes.fate[i].startsWith("pruned"), kind: () => "plain" },
    verify: { label: "Verify", stronger: "likelier for the target", of: "the target's probability of the token where it looked, else the draft's of the path", origins: 7 }, // origins: the flags that a node's colour tells at this stage
  };

  /** Flags of the trees that a node is in at a stage: later ones know what pruning dropped. */
  const flags = (step, i, stage) => (stage === "retrieve" || stage === "prune" ? step.nodes.source[i] : RestViz.source(step, i));

  /** What a node's colour tells of where it is from at a stage. */
  const origin = (step, i, stage) => RestViz.origin(flags(step, i, stage) & STAGES[stage].origins);

  /** How often a node was retrieved, if it is there at a stage because of that. */
  const found = (step, i, stage) => (flags(step, i, stage) & (RestViz.DATASTORE | RestViz.CONTEXT) ? step.nodes.count[i] : 0);

  /** How likely a node is, 0 to 1, by the measure that `STAGES[stage].of` names. */
  function likely(step, i, stage) {
    const { count, logp, target_p } = step.nodes;
    if (stage === "verify" && target_p[i] !== null) return target_p[i];
    const share = count[0] ? found(step, i, stage) / count[0] : 0, p = logp[i] === null ? 0 : Math.exp(logp[i]);
    return stage === "draft" ? p : stage === "retrieve" || stage === "prune" ? share : Math.max(p, share);
  }

  /** What a node says at its end: its count, its probability, or how pruning ranked it. */
  function remark(step, i, stage) {
    const { count, parent, logp } = step.nodes;
    // A count is written where it changes: along a chain it would only repeat its parent's.
    const times = i > 0 && found(step, i, stage) > 0 && (parent[i] === 0 || count[i] !== count[parent[i]]) ? "×" + RestViz.count(count[i]) : "";
    if (stage === "prune") {
      const tested = step.first.tested.find((test) => test.node === i);
      return tested ? "rank " + (tested.p > 0 ? RestViz.count(tested.rank) : "–") : "";
    }
    if (stage === "draft" || (stage !== "retrieve" && !times)) return i > 0 && logp[i] !== null ? RestViz.percent(Math.exp(logp[i])) : times;
    return times;
  }

  /** Whether a node is there at a stage. */
  const shows = (step, stage, showPruned = false) => (i) => (STAGES[stage].shows ? STAGES[stage].shows(step, i) : showPruned || !step.nodes.fate[i].startsWith("pruned"));

  /** The drafted nodes that are there at a stage, by their path: the tokens from the root on. */
  function byPath(step, stage) {
    const paths = [""], found = new Map(), shown = shows(step, stage);
    step.nodes.token.forEach((token, i) => {
      if (i === 0) return;
      paths[i] = `${paths[step.nodes.parent[i]]},${token}`;
      if (shown(i)) found.set(paths[i], i);
    });
    return found;
  }

  /** @param fold(node) whether a chain that begins there may become one box
      @returns {boxes, edges, width, height, columns}; box.node is an index, or -1 for the bonus token; box.chain are the
      nodes that a box stands for */
  function layout(model, step, showPruned, stage = "verify", fold = () => false) {
    const { nodes } = step;
    const n = nodes.token.length;
    const pruned = (i) => nodes.fate[i].startsWith("pruned");
    const shown = shows(step, stage, showPruned);
    const kindOf = STAGES[stage].kind ? (i) => (i === 0 ? "root" : STAGES[stage].kind(step, i)) : (i) => fate(step, i);
    const children = Array.from({ length: n }, () => []);
    for (let i = 1; i < n; i++) if (shown(i)) children[nodes.parent[i]].push(i);
    for (const list of children) list.sort((a, b) => pruned(a) - pruned(b) || nodes.count[b] - nodes.count[a] || (nodes.logp[b] ?? -1e9) - (nodes.logp[a] ?? -1e9) || a - b);

    const last = stage !== "verify" ? null : step.accepted.length ? step.accepted[step.accepted.length - 1] : 0;
    const boxes = [], edges = [], widths = [];
    const at = new Map();
    let row = 0;
    const place = (node, parent, level, text, note, kind, chain = [node]) => {
      const label = RestViz.clip(text, MOST_CHARS);
      const width = label.length * CHAR + (note ? note.length * SMALL + 6 : 0) + (kind === "accepted" || kind === "bonus" ? 14 : 0) + 2 * PAD;
      widths[level] = Math.max(widths[level] || 0, width);
      const box = { node, parent, level, row, label, note, kind, width, chain, p: node > 0 ? likely(step, node, stage) : 1 };
      for (let i = 1; i < chain.length; i++) widths[level + i] ||= 0;
      boxes.push(box);
      at.set(node, box);
    };
    /** The chain of nodes from `node` on that share its kind and do not branch; accepted ones are never folded. */
    const run = (node) => {
      const chain = [node], kind = kindOf(node);
      if (node === 0 || kind === "accepted" || !fold(node)) return chain;
      for (let next = children[node]; next.length === 1 && kindOf(next[0]) === kind; next = children[next[0]]) chain.push(next[0]);
      return chain.length < FOLD ? [node] : chain;
    };
    const visit = (node, parent, level) => {
      const chain = run(node), end = chain[chain.length - 1], folded = chain.length > 1;
      place(node, parent, level, chain.map((i) => model.label(nodes.token[i])).join(""), folded ? `${chain.length} tokens` : remark(step, node, stage), kindOf(node), chain);
      let first = true;
      const next = () => { if (!first) row++; first = false; };
      if (node === last && step.bonus !== null) {
        next();
        place(-1, node, level + 1, model.label(step.bonus), "", "bonus");
      }
      for (const child of children[end]) { next(); visit(child, node, level + chain.length); }
    };
    visit(0, null, 0);

    const left = [PAD];
    for (let level = 0; level < widths.length; level++) left[level + 1] = left[level] + widths[level] + GAP;
    for (const box of boxes) {
      box.x = left[box.level];
      box.y = HEAD + box.row * ROW;
      box.height = HEIGHT;
    }
    const most = Math.max(...nodes.count, 1);
    for (const box of boxes) {
      if (box.parent === null) continue;
      const from = at.get(box.parent);
      const x0 = from.x + from.width, y0 = from.y + HEIGHT / 2, y1 = box.y + HEIGHT / 2, mid = box.x - GAP / 2;
      const d = y0 === y1 ? `M${x0} ${y0}H${box.x}`
        : `M${x0} ${y0}H${mid - 8}C${mid} ${y0} ${mid - 4} ${y1} ${mid + 4} ${y1}H${box.x}`;
      const share = box.node > 0 ? Math.log1p(nodes.count[box.node]) / Math.log1p(most) : 0;
      edges.push({ d, kind: box.kind, node: box.node, weight: 1 + 1.5 * share });
    }
    return {
      boxes, edges,
      columns: left.slice(0, widths.length).map((x, level) => ({ x, level })),
      width: left[widths.length] - GAP + PAD,
      height: HEAD + (row + 1) * ROW,
    };
  }

  Object.assign(RestViz, { layout, byPath, fate, originAt: origin, likely, FATES, STAGES });
})((globalThis.RestViz = globalThis.RestViz || {}));
