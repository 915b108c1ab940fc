/* The tree attention mask of a step as a matrix: a row a node that was verified, a column what it can see.  Rows are in
   the order in which the target read them; before the tree's own columns stands the text, which every node sees. */
(function (RestViz) {
  "use strict";
  const { el, svg, plural, quote } = RestViz;

  const TEXT = 3; // cells that stand for the text
  const NAMED = 6; // ancestors named in the caption

  class MaskView {
    /** @param onPoint(node) a row or column is pointed at */
    constructor(host, { onPoint }) {
      this.onPoint = onPoint;
      this.svg = svg("svg", { class: "rv-matrix", tabindex: 0, role: "img", "aria-label": "Tree attention mask. Up and down arrows visit its rows." });
      this.said = el("figcaption", { class: "rv-small", "aria-live": "polite" });
      host.append(this.svg, this.said);
      this.svg.addEventListener("pointerover", (event) => {
        const { row } = event.target.dataset;
        if (row !== undefined) this.choose(this.order[+row]);
      });
      this.svg.addEventListener("keydown", (event) => {
        const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!by || !this.order) return;
        this.choose(this.order[Math.max(0, Math.min(this.order.length - 1, this.order.indexOf(this.selected) + by))]);
        event.preventDefault();
        event.stopPropagation();
      });
    }

    draw(model, step) {
      Object.assign(this, { model, step, selected: null });
      const { fate } = step.nodes, order = (this.order = fate.map((_, i) => i).filter((i) => !fate[i].startsWith("pruned")));
      const place = new Map(order.map((node, row) => [node, row])), n = order.length;
      this.svg.setAttribute("viewBox", `-0.5 -0.5 ${n + TEXT + 1.5} ${n + 1}`);
      this.svg.replaceChildren(svg("rect", { class: "m-text", x: 0, y: 0, width: TEXT, height: n }), svg("rect", { class: "m-tree", x: TEXT + 0.5, y: 0, width: n, height: n }));
      this.rows = order.map((node, row) => {
        const { kind } = RestViz.origin(RestViz.source(step, node));
        const cells = [node, ...this.ancestors(node)].map((seen) => svg("rect", { class: "m-sees", x: TEXT + 0.5 + place.get(seen) + 0.06, y: row + 0.06, width: 0.88, height: 0.88, rx: 0.15 }));
        const group = svg("g", { class: `m-row m-${fate[node]} s-${node ? kind : "root"}` },
          svg("rect", { class: "m-band", "data-row": row, x: 0, y: row, width: n + TEXT + 0.5, height: 1 }), ...cells);
        this.svg.append(group);
        return group;
      });
      this.column = svg("rect", { class: "m-column", y: 0, width: 1, height: n, visibility: "hidden" });
      this.svg.append(this.column);
      this.said.textContent = n === 1 ? "Only the root is verified: it sees the text and itself."
        : `${plural(n, "row")}, one forward: every node sees the text and its own path, so no branch disturbs another. Point at a row.`;
    }

    /** The nodes above, nearest first, the root last. */
    ancestors(node) {
      const above = [], { parent } = this.step.nodes;
      for (let i = parent[node]; i >= 0; i = parent[i]) above.push(i);
      return above;
    }

    choose(node) {
      this.point(node);
      this.onPoint(node);
    }

    /** Mark a node's row, and the column in which the rows that see it have a cell. */
    point(node) {
      if (!this.rows || node === this.selected) return;
      const row = this.order.indexOf(node);
      this.rows[this.order.indexOf(this.selected)]?.classList.remove("hover");
      this.selected = node;
      this.column.setAttribute("visibility", row < 0 ? "hidden" : "visible");
      if (row < 0) return;
      this.rows[row].classList.add("hover");
      this.column.setAttribute("x", TEXT + 0.5 + row);
      const { model, step } = this, label = (i) => quote(model.label(step.nodes.token[i]));
      const above = this.ancestors(node).reverse(), named = above.slice(-NAMED).map(label);
      const by = this.order.filter((other) => other !== node && this.ancestors(other).includes(node)).length;
      this.said.textContent = `Row ${row}, ${label(node)}: sees the text${node ? `, ${above.length > NAMED ? "… " : ""}${named.join(" ")}` : ""} and itself`
        + (by ? `; ${by === 1 ? "one node sees" : `${by} nodes see`} it.` : "; no node sees it.");
    }
  }

  RestViz.MaskView = MaskView;
})((globalThis.RestViz = globalThis.RestViz || {}));
