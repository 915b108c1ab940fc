/* Words for a step and for a node: why this tree, and what became of each token. */
(function (RestViz) {
  "use strict";
  const { el, count, plural, percent, ms } = RestViz;

  const quote = (text) => "“" + text + "”";

  /** [strong or plain sentences] that say why the step's tree is what it is. */
  function why(model, step) {
    const emitted = model.emitted(step.index), time = ms(RestViz.TraceModel.ms(step));
    if (step.index === 0) {
      return [["strong", "Prefill. "], ["", `The target reads the ${plural(model.header.prompt_ids.length, "prompt token")} in ${time} and gives the first token; nothing is drafted yet.`]];
    }
    if (model.isBaseline) return [["strong", "One forward, one token. "], ["", `Nothing is drafted in autoregressive decoding; this forward took ${time}.`]];
    const verified = step.nodes.fate.filter((fate) => !fate.startsWith("pruned")).length - 1;
    const result = step.accepted.length
      ? `The target accepted ${plural(step.accepted.length, "drafted token")}${step.bonus === null ? "" : " and added one of its own"}: ${plural(emitted, "token")} in ${time}.`
      : `The target refused every draft and wrote its own token: ${plural(emitted, "token")} in ${time}.`;
    const parts = [];
    for (const match of step.matches) {
      if (!match.length) continue;
      parts.push(["strong", `Longest suffix found in ${match.retriever}: ${plural(match.length, "token")}`],
        ["", ` (outlined in the text), at ${plural(match.hits, "place")}${match.sampled < match.hits ? `, ${count(match.sampled)} of them sampled` : ""}. `]);
    }
    if (!verified) {
      return [...parts, ["strong", parts.length ? "No draft. " : "No match. "],
        ["", `Nothing in the datastore continues text that ends like this, so the step is a plain forward: one token in ${time}.`]];
    }
    return [...parts, ["", `What followed there makes a tree of ${plural(verified, "node")}, all verified in one forward. ${result}`]];
  }

  class Inspector {
    constructor(host) { this.host = host; }

    step(model, step) {
      const t = step.times;
      const rows = [["tokens out", String(model.emitted(step.index))]];
      for (const match of step.matches) {
        rows.push(["match length", plural(match.length, "token")],
          ["hits", count(match.hits) + (match.sampled < match.hits ? ` (${count(match.sampled)} read)` : "")]);
      }
      rows.push(["step time", ms(RestViz.TraceModel.ms(step))]);
      for (const part of ["retrieve", "draft", "fuse", "forward", "accept", "other"]) {
        if (t[part] > 0 && (part !== "accept" || !model.isBaseline)) rows.push(["– " + part, ms(t[part])]);
      }
      this.host.replaceChildren(el("h4", { text: "Step " + step.index }), this.list(rows),
        el("p", { class: "rv-hint", text: "Point at a node, or focus the tree and press ↑ ↓, for its details." }));
    }

    /** node: index, or -1 for the target's own token. */
    node(model, step, node) {
      const own = node === -1, { nodes } = step;
      const token = own ? step.bonus : nodes.token[node];
      const parent = own ? (step.accepted[step.accepted.length - 1] ?? 0) : nodes.parent[node];
      const kind = own ? "bonus" : RestViz.fate(step, node);
      const rows = [["fate", RestViz.FATES[kind].label]];
      if (!own && node > 0) {
        const from = RestViz.origin(nodes.source[node]).label;
        rows.push(["from", from]);
        if (nodes.count[node]) {
          const all = nodes.count[0];
          rows.push(["retrieved", all ? `${count(nodes.count[node])} of ${plural(all, "continuation")} (${percent(nodes.count[node] / all)})` : count(nodes.count[node])]);
        }
        if (nodes.logp[node] !== null) rows.push(["draft model", percent(Math.exp(nodes.logp[node])) + " for the path"]);
        rows.push(["target", nodes.target_p[node] === null ? "did not look here" : percent(nodes.target_p[node]) + " for this token"]);
      }
      const path = model.path(step, own ? parent : node).map((i) => model.label(nodes.token[i]));
      if (own) path.push(model.label(token));
      if (path.length) rows.push(["path", path.join(" ")]);
      rows.push(["token id", String(token)]);
      const parts = [el("h4", { text: quote(model.label(token)) }), el("p", { class: "rv-hint", text: RestViz.FATES[kind].text + "." }), this.list(rows)];
      const look = step.looks.find((look) => look.node === (node === 0 ? 0 : parent));
      if (look) parts.push(this.choices(model, look, token, model.label(nodes.token[look.node])));
      this.host.replaceChildren(...parts);
    }

    list(rows) {
      return el("dl", {}, ...rows.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
    }

    /** The target's most likely next tokens after a node, as small bars. */
    choices(model, look, token, after) {
      return el("div", { class: "rv-choices" }, el("p", { class: "rv-small", text: `The target's choices after ${quote(after)}` }),
        ...look.token.slice(0, 5).map((id, k) => {
          const bar = el("span", { class: "rv-choice-bar" });
          bar.style.width = Math.max(1, look.p[k] * 100) + "%";
          return el("div", { class: id === token ? "rv-choice this" : "rv-choice" }, bar,
            el("span", { class: "rv-choice-token", text: (id === token ? "▸ " : "") + model.label(id) }), el("span", { text: percent(look.p[k]) }));
        }));
    }
  }

  Object.assign(RestViz, { Inspector, why });
})((globalThis.RestViz = globalThis.RestViz || {}));
