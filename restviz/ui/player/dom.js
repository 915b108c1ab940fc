/* Small helpers to build DOM and numbers.  Text goes in as text nodes only, so no token can become markup. */
(function (RestViz) {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
      else if (name === "text") node.textContent = value;
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  }

  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const integer = new Intl.NumberFormat("en-US");
  const count = (n) => integer.format(n);
  const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");
  const percent = (p) => (p >= 0.9995 ? "100 %" : p >= 0.1 ? (p * 100).toFixed(0) + " %"
    : p >= 0.001 ? (p * 100).toFixed(1) + " %" : p > 0 ? "< 0.1 %" : "0 %");
  const ms = (t) => (t >= 100 ? t.toFixed(0) : t >= 1 ? t.toFixed(1) : t >= 0.01 ? t.toFixed(2) : "0") + " ms";
  const clip = (text, n) => (text.length > n ? text.slice(0, n - 1) + "…" : text);

  const quote = (text) => "“" + text + "”";

  Object.assign(RestViz, { el, svg, count, plural, percent, ms, clip, quote });
})((globalThis.RestViz = globalThis.RestViz || {}));
