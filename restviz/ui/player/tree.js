/* The draft tree of one step as SVG: shapes and marks as well as colours, pan, zoom, hover, and keys. */
(function (RestViz) {
  "use strict";
  const { el, svg, layout } = RestViz;

  const LEAST_FIT = 0.8, MOST = 2.5, LEAST = 0.2;
  const MOVE = 420; // ms from one stage to the next
  const CORNERS = { datastore: 2, context: 7, model: 10, fused: 4 }; // a second sign for where a node is from
  const FOOT = 44; // px under the tree that its buttons cover

  class TreeView {
    /** @param onPoint(node|null, by key) a node is pointed at or focused; -1 is the target's own token */
    constructor(host, { onPoint, name = "Draft tree" }) {
      this.onPoint = onPoint;
      this.world = svg("g");
      this.svg = svg("svg", {
        class: "rv-svg", tabindex: 0, role: "group",
        "aria-label": name + ". Up and down arrows visit its nodes, Enter unfolds one, plus and minus zoom, 0 fits.",
      }, this.world);
      const button = (text, label, action) =>
        el("button", { type: "button", class: "rv-icon", title: label, "aria-label": label, text, on: { click: action } });
      this.tools = el("div", { class: "rv-tools" },
        button("+", "Zoom in", () => this.zoom(1.25)), button("−", "Zoom out", () => this.zoom(0.8)),
        button("⤢", "Fit the tree", () => this.fit(true)));
      host.append(this.svg, this.tools);
      this.view = { x: 0, y: 0, k: 1 };
      this.folding = false;
      this.unfolded = new Set(); // first nodes of chains that were opened in this step
      this.fresh = new Set(); // nodes to mark as new
      this.pointers = new Map();
      this.listen();
      this.size = { w: 0, h: 0 }; // kept, not asked for: asking in the middle of a step would lay out the whole page
      new ResizeObserver(([entry]) => {
        this.size = { w: entry.contentRect.width, h: entry.contentRect.height };
        if (this.shape) this.fit();
      }).observe(this.svg);
    }

    /** Fold chains, or show every node. */
    fold(folding) {
      this.folding = folding;
      this.unfolded.clear();
      this.again?.();
    }

    draw(model, step, showPruned, live, stage = "verify") {
      if (this.step !== step) this.unfolded.clear();
      const before = this.step === step && this.stage !== stage && !matchMedia("(prefers-reduced-motion: reduce)").matches
        ? { boxes: new Map(this.shape.boxes.map((box) => [box.node, box])), elements: this.elements } : null;
      Object.assign(this, { step, stage });
      this.again = () => this.draw(model, step, showPruned, live, stage);
      const shape = (this.shape = layout(model, step, showPruned, stage, (node) => this.folding && !this.unfolded.has(node)));
      this.selected = null;
      this.elements = new Map();
      const edges = svg("g", { class: "rv-edges" }), boxes = svg("g");
      for (const edge of shape.edges) {
        edges.append(svg("path", { d: edge.d, class: "e-" + edge.kind, "stroke-width": edge.kind === "accepted" ? 3 : edge.weight }));
      }
      for (const box of shape.boxes) boxes.append(this.box(box, step));
      const heads = svg("g", { class: "rv-heads", "aria-hidden": "true" });
      for (const { x, level } of shape.columns) {
        heads.append(svg("text", { x, y: 14, text: level === 0 ? "root" : "+" + level }));
      }
      this.world.replaceChildren(heads, edges, boxes);
      this.svg.classList.toggle("live", Boolean(live));
      this.fit();
      if (before) this.move(before, edges);
    }

    /** One transition between two stages: what stays moves, what is new appears, what is gone fades where it was. */
    move(before, edges) {
      const timing = { duration: MOVE, easing: "ease-in-out" };
      for (const box of this.shape.boxes) {
        const was = before.boxes.get(box.node);
        this.elements.get(box.node).animate(
          was ? [{ transform: `translate(${was.x - box.x}px, ${was.y - box.y}px)` }, { transform: "none" }] : [{ opacity: 0 }, { opacity: 1 }], timing);
        before.elements.delete(box.node);
      }
      edges.animate([{ opacity: 0 }, { opacity: 0, offset: 0.6 }, { opacity: 1 }], timing);
      for (const gone of before.elements.values()) {
        gone.removeAttribute("data-node");
        gone.setAttribute("aria-hidden", "true");
        this.world.append(gone);
        gone.animate([{ opacity: 1 }, { opacity: 0 }], timing).finished.then(() => gone.remove(), () => gone.remove());
      }
    }

    box(box, step) {
      const { x, y, width, height, kind } = box;
      const source = box.node > 0 ? RestViz.originAt(step, box.node, this.stage).kind : "", fresh = box.chain.some((node) => this.fresh.has(node));
      const group = svg("g", {
        class: `rv-node n-${kind} s-${source}${box.chain.length > 1 ? " folded" : ""}${fresh ? " fresh" : ""}`, "data-node": box.node, role: "img",
        "aria-label": `${box.label}, ${RestViz.FATES[kind].label}${box.note ? ", " + box.note : ""}${fresh ? ", new" : ""}`,
      });
      const round = kind === "bonus" ? height / 2 : kind === "root" ? 2 : CORNERS[source] ?? 5;
      const filled = kind === "plain" || kind === "declined" || kind === "unreached";
      group.append(svg("rect", { x, y, width, height, rx: round, "fill-opacity": filled ? (0.1 + 0.9 * box.p).toFixed(2) : null }));
      if (source === "fused") group.append(svg("rect", { x: x + 2.5, y: y + 2.5, width: width - 5, height: height - 5, rx: 2, class: "inner" }));
      const mark = kind === "accepted" ? "✓" : kind === "bonus" ? "◆" : "";
      if (mark) group.append(svg("text", { x: x + 7, y: y + 14.5, class: "mark", text: mark }));
      group.append(svg("text", { x: x + 7 + (mark ? 14 : 0), y: y + 14.5, class: "label", text: box.label }));
      if (box.note) group.append(svg("text", { x: x + width - 7, y: y + 14.5, class: "note", "text-anchor": "end", text: box.note }));
      if (kind === "declined") {
        group.append(svg("line", { x1: x - 4, x2: x + 4, y1: y + height / 2 - 4, y2: y + height / 2 + 4, class: "cross" }),
          svg("line", { x1: x - 4, x2: x + 4, y1: y + height / 2 + 4, y2: y + height / 2 - 4, class: "cross" }));
      }
      if (fresh) {
        const cx = x + width, d = `M${cx - 3} ${y}h6M${cx} ${y - 3}v6`;
        group.append(svg("circle", { cx, cy: y, r: 5.5, class: "fresh" }), svg("path", { d, class: "fresh" }));
      }
      this.elements.set(box.node, group);
      return group;
    }

    /** Whole tree if it stays readable, else at the smallest readable size with the accepted path in the middle. */
    fit(whole = false) {
      const { w } = this.size, h = this.size.h - FOOT, { width, height, boxes } = this.shape;
      if (!w || h <= 0) return;
      const both = Math.min(w / width, h / height, 1.15);
      const k = whole ? both : Math.max(both, Math.min(LEAST_FIT, 1));
      const y = height * k <= h ? Math.min((h - height * k) / 2, 12) : this.centre(boxes, k, h, height);
      this.view = { k, x: width * k <= w ? Math.min((w - width * k) / 2, 12) : 4, y };
      this.place();
    }

    centre(boxes, k, h, height) {
      const rows = boxes.filter((box) => box.kind === "accepted" || box.kind === "bonus" || box.kind === "root").map((box) => box.y);
      const middle = (Math.min(...rows) + Math.max(...rows)) / 2;
      return Math.min(0, Math.max(h - height * k, h / 2 - middle * k));
    }

    place() {
      const { x, y, k } = this.view;
      this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    }

    zoom(factor, px = this.size.w / 2, py = this.size.h / 2) {
      const k = Math.min(MOST, Math.max(LEAST, this.view.k * factor)), f = k / this.view.k;
      this.view = { k, x: px - (px - this.view.x) * f, y: py - (py - this.view.y) * f };
      this.place();
    }

    pan(dx, dy) {
      this.view.x += dx;
      this.view.y += dy;
      this.place();
    }

    point(node) {
      node = this.shape?.boxes.find((box) => box.chain.includes(node))?.node ?? node; // it may be folded away
      if (node === this.selected) return;
      this.elements?.get(this.selected)?.classList.remove("hover");
      this.elements?.get(node)?.classList.add("hover");
      this.selected = node;
    }

    listen() {
      const { svg: root, pointers } = this;
      const local = (event) => {
        const box = root.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      root.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return; // plain wheel scrolls the page; a pinch arrives with ctrl
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 240), ...local(event));
      }, { passive: false });
      root.addEventListener("pointerdown", (event) => {
        pointers.set(event.pointerId, local(event));
        this.moved = 0;
        this.pressed = event.target.closest?.("[data-node]");
      });
      root.addEventListener("pointermove", (event) => {
        const before = pointers.get(event.pointerId);
        if (!before) return;
        const [x, y] = local(event), dx = x - before[0], dy = y - before[1];
        this.moved += Math.abs(dx) + Math.abs(dy);
        if (this.moved < 4) return;
        if (!root.hasPointerCapture(event.pointerId)) root.setPointerCapture(event.pointerId);
        if (pointers.size === 2) {
          const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
          const distance = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
          this.zoom(distance([x, y]) / distance(before), ...other);
        } else this.pan(dx, dy);
        pointers.set(event.pointerId, [x, y]);
      });
      const release = (event) => pointers.delete(event.pointerId);
      root.addEventListener("pointerup", (event) => {
        if (pointers.has(event.pointerId) && this.moved < 4 && this.pressed) {
          this.choose(+this.pressed.dataset.node);
          this.unfold();
        }
        release(event);
      });
      root.addEventListener("pointercancel", release);
      root.addEventListener("pointerover", (event) => {
        const group = event.target.closest?.("[data-node]");
        if (group && !pointers.size) this.choose(+group.dataset.node);
      });
      root.addEventListener("keydown", (event) => this.key(event));
    }

    /** Open the chain that is selected. */
    unfold() {
      const node = this.selected, box = this.shape.boxes.find((one) => one.node === node);
      if (!(box?.chain.length > 1)) return;
      this.unfolded.add(node);
      this.again();
      this.choose(node);
    }

    choose(node, byKey = false) {
      this.point(node);
      this.onPoint(node, byKey);
    }

    key(event) {
      const { key } = event;
      if (key === "+" || key === "=") this.zoom(1.25);
      else if (key === "-") this.zoom(0.8);
      else if (key === "0") this.fit(true);
      else if (key === "Enter") this.unfold();
      else if ((key === "ArrowDown" || key === "ArrowUp") && this.shape) {
        const order = this.shape.boxes, now = order.findIndex((box) => box.node === this.selected);
        const next = order[Math.min(order.length - 1, Math.max(0, now + (key === "ArrowDown" ? 1 : -1)))];
        this.choose(next.node, true);
        this.follow(next);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    }

    /** Keep a node that was reached by key inside the window. */
    follow(box) {
      const { x, y, k } = this.view, { w, h } = this.size;
      const left = box.x * k + x, top = box.y * k + y;
      const dx = left < 8 ? 8 - left : left + box.width * k > w - 8 ? w - 8 - left - box.width * k : 0;
      const dy = top < 8 ? 8 - top : top + box.height * k > h - 8 ? h - 8 - top - box.height * k : 0;
      if (dx || dy) this.pan(dx, dy);
    }
  }

  Object.assign(RestViz, { TreeView, CORNERS });
})((globalThis.RestViz = globalThis.RestViz || {}));
