/* Words for a step and for a node: why this tree, and what became of each token. */
(function (RestViz) {
  "use strict";
  const { el, count, plural, percent, ms, quote } = RestViz;

  const PATIENCE = 200; // ms that a node is pointed at before its places are asked for

  /** [strong or plain sentences] that say why the step's tree is what it is. */
  function why(model, step, stage = "verify") {
    const emitted = model.emitted(step.index), time = ms(RestViz.TraceModel.ms(step));
    if (step.index === 0) {
      return [["strong", "Prefill. "], ["", `The target reads the ${plural(model.header.prompt_ids.length, "prompt token")} in ${time} and gives the first token; nothing is drafted yet.`]];
    }
    if (model.isBaseline) return [["strong", "One forward, one token. "], ["", `Nothing is drafted in autoregressive decoding; this forward took ${time}.`]];
    const counts = RestViz.stages(step);
    if (counts && stage !== "verify") return staged(step, counts, stage);
    const verified = RestViz.verified(step);
    const result = step.accepted.length
      ? `The target accepted ${plural(step.accepted.length, "drafted token")}${step.bonus === null ? "" : " and added one of its own"}: ${plural(emitted, "token")} in ${time}.`
      : `The target refused every draft and wrote its own token: ${plural(emitted, "token")} in ${time}.`;
    if (counts) {
      return [["strong", flow(counts) + ". "], ["", result]];
    }
    if (step.first) return [["strong", `The draft model proposed ${plural(verified, "node")}`], ["", `, all verified in one forward. ${result}`]];
    const parts = [];
    for (const match of used(step.matches)) {
      parts.push(["strong", `Longest suffix found in ${place(match)}: ${plural(match.length, "token")}`],
        ["", ` (outlined in the text), at ${plural(match.hits, "place")}${match.sampled < match.hits ? `, ${count(match.sampled)} of them ${match.retriever === "context" ? "read" : "sampled"}` : ""}. `]);
    }
    if (!verified) {
      return [...parts, ["strong", parts.length ? "No draft. " : "No match. "],
        ["", `Nothing there continues text that ends like this, so the step is a plain forward: one token in ${time}.`]];
    }
    return [...parts, ["", `What followed there makes a tree of ${plural(verified, "node")}, all verified in one forward. ${result}`]];
  }

  /** What each stage of a RASD step left, in one line. */
  const flow = (counts) => `${counts.retrieved} retrieved → ${counts.kept} after pruning → + ${counts.model} drafted → ${counts.fused} verified (${counts.shared} shared) → ${counts.accepted} accepted`;

  /** The matches that the tree is made of: of several datastores only those with the longest match contribute. */
  function used(matches) {
    const longest = Math.max(0, ...matches.filter((match) => match.retriever !== "context").map((match) => match.length));
    return matches.filter((match) => match.length && (match.retriever === "context" || match.length === longest));
  }

  const place = (match) => (match.retriever === "context" ? "the text so far" : match.retriever);

  /** What happened at a stage of RASD. */
  function staged(step, counts, stage) {
    const { k, tested } = step.first;
    if (stage === "retrieve") {
      const found = used(step.matches)
        .map((match) => `${plural(match.length, "token")} of the text’s end in ${place(match)}, at ${plural(match.hits, "place")}`);
      return [["strong", `${plural(counts.retrieved, "node")} retrieved. `], ["", found.length ? `Found: ${found.join("; ")}. What followed there, the most frequent first.` : "Nothing in the datastore or the text continues an end like this one."]];
    }
    if (stage === "prune") {
      if (!k) return [["strong", "No pruning. "], ["", "It is switched off: every retrieved branch stays."]];
      const dropped = tested.filter((test) => RestViz.dropped(step).has(test.node) && RestViz.retrieved(step, test.node)).length;
      return [["strong", `${counts.kept} of ${plural(counts.retrieved, "node")} stay. `],
        ["", `A branch stays if its first token is among the draft model’s ${count(k)} likeliest next tokens; ${plural(dropped, "branch").replace("branchs", "branches")} ${dropped === 1 ? "is" : "are"} not.`]];
    }
    if (stage === "draft") return [["strong", `${plural(counts.model, "node")} drafted. `], ["", "The draft model’s own tree: its likeliest continuations, level by level."]];
    return [["strong", `${plural(counts.fused, "node")} to verify. `],
      ["", `Both trees laid over each other by longest prefix: ${plural(counts.shared, "node")} ${counts.shared === 1 ? "is" : "are"} in both, ${counts.over ? `${plural(counts.over, "node")} ${counts.over === 1 ? "is" : "are"} over the cap, ` : ""}and one forward of the target checks them all.`]];
  }

  class Inspector {
    /** @param ask(model, step, node) resolves to the places of a retrieved node; null where nobody knows them */
    constructor(host, ask = null) { Object.assign(this, { host, ask }); }

    step(model, step, stage = "verify") {
      clearTimeout(this.timer);
      const t = step.times;
      const rows = [["tokens out", String(step.accepted.length + (step.bonus === null ? 0 : 1))]];
      for (const match of step.matches) {
        rows.push([step.matches.length > 1 ? match.retriever : "match length", plural(match.length, "token")],
          ["hits", count(match.hits) + (match.sampled < match.hits ? ` (${count(match.sampled)} read)` : "")]);
      }
      rows.push(["step time", ms(RestViz.TraceModel.ms(step))]);
      for (const part of ["retrieve", "draft", "fuse", "forward", "accept", "other"]) {
        if (t[part] > 0 && (part !== "accept" || !model.isBaseline)) rows.push(["– " + part, ms(t[part])]);
      }
      const details = [this.list(rows), ...(step.first ? [this.first(model, step)] : [])];
      this.host.replaceChildren(el("h3", { text: "Step " + step.index }), ...(stage === "verify" ? details : details.reverse()),
        el("p", { class: "rv-hint", text: "Point at a node, or focus the tree and press ↑ ↓, for its details." }));
    }

    /** @param node index, or -1 for the target's own token; elsewhere: its step is not the one on screen */
    node(model, step, node, elsewhere = false) {
      const own = node === -1, { nodes } = step;
      const token = own ? step.bonus : nodes.token[node];
      const parent = own ? (step.accepted[step.accepted.length - 1] ?? 0) : nodes.parent[node];
      const kind = own ? "bonus" : RestViz.fate(step, node);
      const rows = [["fate", RestViz.FATES[kind].label]];
      if (own || node > 0) rows.push(["ahead", plural(model.path(step, own ? parent : node).length + (own ? 1 : 0), "token")]);
      if (!own && node > 0) {
        const flags = RestViz.source(step, node), named = RestViz.stores(model.header, flags).join(", ");
        rows.push(["from", RestViz.origin(flags).label + (named ? ` (${named})` : "")]);
        if (nodes.count[node]) {
          const all = nodes.count[0];
          rows.push(["retrieved", all ? `${count(nodes.count[node])} of ${plural(all, "continuation")} (${percent(nodes.count[node] / all)})` : count(nodes.count[node])]);
        }
        rows.push(...this.matched(model, step, flags), ...this.drafted(step, node));
        rows.push(["target", nodes.target_p[node] === null ? "did not look here" : percent(nodes.target_p[node]) + " for this token"]);
      }
      const path = model.path(step, own ? parent : node).map((i) => model.label(nodes.token[i]));
      if (own) path.push(model.label(token));
      if (path.length) rows.push(["path", path.join(" ")]);
      rows.push(["token id", String(token)]);
      const reason = this.reason(model, step, node, kind, parent), where = elsewhere ? `of step ${step.index}` : "";
      const parts = [el("h3", {}, quote(model.label(token)), where && el("span", { class: "rv-small", text: " " + where })), el("p", { class: "rv-hint", text: reason }), this.list(rows)];
      const from = own || node === 0 ? "" : `, from ${RestViz.origin(RestViz.source(step, node)).label}`;
      this.summary = [quote(model.label(token)), where, RestViz.FATES[kind].label + from + ".", reason].filter(Boolean).join(" ");
      const look = step.looks.find((look) => look.node === (node === 0 ? 0 : parent));
      if (look) parts.push(this.choices(model, look, token, model.label(nodes.token[look.node])));
      clearTimeout(this.timer);
      if (this.ask && node > 0 && nodes.source[node] & RestViz.DATASTORE) {
        const places = el("div", { class: "rv-places" });
        parts.push(places);
        this.timer = setTimeout(() => this.places(places, model, step, node), PATIENCE);
      }
      this.host.replaceChildren(...parts);
    }

    /** How much of the text's end was found where the node is from. */
    matched(model, step, flags) {
      const names = [...RestViz.stores(model.header, flags), ...(flags & RestViz.CONTEXT ? ["context"] : [])];
      const lengths = step.matches.filter((match) => match.length && names.includes(match.retriever)).map((match) => match.length);
      return lengths.length ? [["matched", plural(Math.max(...lengths), "token") + " of the text’s end"]] : [];
    }

    /** What the draft model said of a token, as far as it looked: its children of a node are its likeliest, best first. */
    drafted(step, node) {
      const { parent, logp } = step.nodes, test = step.first?.tested.find((one) => one.node === node);
      if (logp[node] !== null) {
        const rank = 1 + logp.filter((other, i) => parent[i] === parent[node] && other !== null && other > logp[node]).length;
        return [["draft model", `rank ${count(rank)}, ${percent(Math.exp(logp[node] - (logp[parent[node]] ?? 0)))} for this token`], ["– path", percent(Math.exp(logp[node]))]];
      }
      if (test) return [["draft model", test.p > 0 ? `rank ${count(test.rank)}, ${percent(test.p)} for this token` : "not in its vocabulary"]];
      return step.first ? [["draft model", "did not look here"]] : [];
    }

    /** The lines of the datastores that a node comes from, with what stands around them. */
    async places(host, model, step, node) {
      try {
        for (const { datastore, total, locations } of await this.ask(model, step, node)) {
          host.append(el("p", { class: "rv-small", text: `In ${datastore}, at ${plural(total, "place")}${total > locations.length ? `, ${locations.length} of them` : ""}:` }),
            ...locations.map(({ path, record, line, before, match, after }) => el("figure", {},
              el("figcaption", { class: "rv-small", text: record ? `${path}, record ${count(record)}, line ${count(line)}` : `${path}, line ${count(line)}` }),
              el("code", {}, before, el("mark", { text: match }), after))));
        }
      } catch (error) { host.append(el("p", { class: "rv-small", text: error.message })); }
    }

    list(rows) {
      return el("dl", {}, ...rows.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))));
    }

    /** Why a node is what it is, in one sentence with the numbers. */
    reason(model, step, node, kind, parent) {
      const { nodes } = step, label = (i) => quote(model.label(nodes.token[i]));
      const look = step.looks.find((one) => one.node === parent), wanted = look && `${quote(model.label(look.token[0]))} (${percent(look.p[0])})`;
      if (kind === "accepted" && nodes.target_p[node] !== null) return `Kept: after ${label(parent)} the target itself writes this token (${percent(nodes.target_p[node])}).`;
      if (kind === "bonus" && look) {
        const p = look.p[look.token.indexOf(step.bonus)];
        return `What the target writes after ${label(parent)}${p === undefined ? "" : ` (${percent(p)})`}, where nothing that was drafted goes on: every step yields at least this one.`;
      }
      if (kind === "declined" && wanted) {
        return `Rejected: after ${label(parent)} the target gives it ${percent(nodes.target_p[node] ?? 0)}, and ${model.header.parameters.temperature > 0 ? "drew another token; its likeliest was" : "wanted"} ${wanted}.`;
      }
      if (kind === "unreached") {
        const refused = model.path(step, node).find((i) => RestViz.fate(step, i) === "declined");
        if (refused === undefined) return "Verified in the same forward, but not reached: the answer ended before it.";
        return `Verified in the same forward, but not reached: ${label(refused)} before it was refused, which the target gives ${percent(nodes.target_p[refused] ?? 0)}.`;
      }
      if (kind === "pruned_budget" || kind === "pruned_cap") return this.overBudget(model, step, node);
      return kind === "pruned_first_token" ? this.dropped(model, step, node) : RestViz.FATES[kind].text + ".";
    }

    /** Why a node did not fit the budget of its retriever, or the cap of the fused tree: what it had, and what those had. */
    overBudget(model, step, node) {
      const { nodes } = step, every = nodes.fate.map((_, i) => i).slice(1), times = (n) => (n === 1 ? "once" : count(n) + " times");
      if (nodes.fate[node] === "pruned_cap") {
        const had = Math.round(100 * RestViz.likely(step, node, "fuse")), { fused } = RestViz.stages(step);
        return `Pruned: ${had ? had + " %" : "less than 1 %"} likely, and the fused tree's cap is full with ${plural(fused, "likelier node")}. Never verified.`;
      }
      const flag = nodes.source[node] & (RestViz.DATASTORE | RestViz.CONTEXT), fit = every.filter((i) => nodes.source[i] & flag && RestViz.retrieved(step, i));
      const least = fit.length ? `, each found ${times(Math.min(...fit.map((i) => nodes.count[i])))} or more` : "";
      return `Pruned: found ${times(nodes.count[node])}, and the budget of ${flag === RestViz.CONTEXT ? "the text so far" : "the datastore"} is full with ${plural(fit.length, "node")}${least}. Never verified.`;
    }

    /** Why a branch was pruned, with the draft model's numbers. */
    dropped(model, step, node) {
      const first = model.path(step, node)[0];
      const tested = step.first.tested.find((test) => test.node === first);
      const numbers = tested.p > 0 ? `rank ${count(tested.rank)}, p = ${tested.p.toPrecision(2)}` : "not in its vocabulary";
      return `Pruned: its first token ${quote(model.label(step.nodes.token[first]))} is not among the draft model’s top ${count(step.first.k)} (${numbers}).`;
    }

    /** The draft model's likeliest first tokens: those that a retrieved branch starts with are marked. */
    first(model, step) {
      const { nodes, first } = step;
      const retrieved = new Set(first.tested.filter((test) => RestViz.retrieved(step, test.node)).map((test) => nodes.token[test.node]));
      return this.bars(model, `The draft model’s first tokens${first.k ? `; branches that start with one of the top ${count(first.k)} stay` : ""}`,
        first, 10, (id) => (retrieved.has(id) ? "✓ " : ""), "model");
    }

    /** The target's most likely next tokens after a node, as small bars. */
    choices(model, look, token, after) {
      return this.bars(model, `The target's choices after ${quote(after)}`, look, 10, (id) => (id === token ? "▸ " : ""), "bonus");
    }

    bars(model, title, { token, p }, most, mark, kind) {
      return el("div", { class: "rv-choices c-" + kind }, el("p", { class: "rv-small", text: title }),
        ...token.slice(0, most).map((id, k) => {
          const bar = el("span", { class: "rv-choice-bar" }), sign = mark(id);
          bar.style.width = Math.max(1, p[k] * 100) + "%";
          return el("div", { class: sign ? "rv-choice this" : "rv-choice" }, bar,
            el("span", { class: "rv-choice-token", text: sign + model.label(id) }), el("span", { text: percent(p[k]) }));
        }));
    }
  }

  Object.assign(RestViz, { Inspector, why, flow });
})((globalThis.RestViz = globalThis.RestViz || {}));
