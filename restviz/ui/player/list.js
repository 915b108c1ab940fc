/* The nodes of a step as a table, the most telling first: for screen readers, and for whoever likes numbers in columns. */
(function (RestViz) {
  "use strict";
  const { el, count, percent } = RestViz;

  const RANK = ["root", "accepted", "declined", "unreached", "plain", "pruned_cap", "pruned_first_token", "pruned_budget"];
  const HEADS = ["token", "ahead", "from", "found", "draft model", "target", "fate"];

  class ListView {
    /** @param onPoint(node) a row is pointed at or focused */
    constructor(host, { onPoint }) {
      this.onPoint = onPoint;
      this.body = el("tbody");
      this.caption = el("caption", { class: "rv-small" });
      host.append(el("table", {}, this.caption, el("thead", {}, el("tr", {}, ...HEADS.map((text) => el("th", { scope: "col", text })))), this.body));
      for (const event of ["pointerover", "focusin"]) {
        this.body.addEventListener(event, ({ target }) => {
          const row = target.closest("[data-node]");
          if (row) this.onPoint(+row.dataset.node);
        });
      }
    }

    draw(model, step) {
      const { nodes } = step, p = (i) => nodes.target_p[i] ?? -1, fate = (i) => RestViz.fate(step, i);
      const order = nodes.token.map((_, i) => i).slice(1).sort((a, b) => RANK.indexOf(fate(a)) - RANK.indexOf(fate(b))
        || p(b) - p(a) || (nodes.logp[b] ?? -1e9) - (nodes.logp[a] ?? -1e9) || nodes.count[b] - nodes.count[a] || a - b);
      this.caption.textContent = `Nodes of step ${step.index}, accepted ones first, then the likeliest`;
      this.rows = new Map(order.map((node) => [node, el("tr", { "data-node": node, class: "l-" + fate(node) },
        el("th", { scope: "row" }, el("button", { type: "button", class: "rv-link", text: model.label(nodes.token[node]) })),
        ...[String(model.path(step, node).length), RestViz.origin(RestViz.source(step, node)).label, nodes.count[node] ? "×" + count(nodes.count[node]) : "–",
          nodes.logp[node] === null ? "–" : percent(Math.exp(nodes.logp[node])), nodes.target_p[node] === null ? "–" : percent(nodes.target_p[node]),
          RestViz.FATES[fate(node)].label].map((text) => el("td", { text })))]));
      this.body.replaceChildren(...this.rows.values());
    }

    point(node) {
      this.rows?.get(this.selected)?.classList.remove("hover");
      this.rows?.get(node)?.classList.add("hover");
      this.selected = node;
    }
  }

  RestViz.ListView = ListView;
})((globalThis.RestViz = globalThis.RestViz || {}));
