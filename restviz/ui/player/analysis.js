/* What a finished run says as a whole, for the charts.  Pure: a TraceModel in, numbers out; the prefill never counts. */
(function (RestViz) {
  "use strict";

  const ORIGINS = ["datastore", "context", "model", "fused"];

  /** Steps that gave 1, 2, … tokens: {x: tokens, y: steps}. */
  function histogram(model) {
    const sizes = model.steps.slice(1).map((step) => model.emitted(step.index));
    const x = Array.from({ length: Math.max(1, ...sizes) }, (_, i) => i + 1);
    return { x, y: x.map((n) => sizes.filter((size) => size === n).length) };
  }

  /** For each depth of the draft tree the share of steps whose token there was accepted, by the origin of that token:
      {x: depths, series: {origin: shares}}. */
  function byDepth(model) {
    const steps = model.steps.slice(1), deepest = Math.max(0, ...steps.map((step) => step.accepted.length));
    const x = Array.from({ length: deepest }, (_, i) => i + 1), series = {};
    for (const kind of ORIGINS) {
      const y = x.map((depth) => steps.filter((step) => step.accepted.length >= depth && RestViz.origin(RestViz.source(step, step.accepted[depth - 1])).kind === kind).length / steps.length);
      if (y.some(Boolean)) series[kind] = y;
    }
    return { x, series };
  }

  /** The forwards of a run, {x: rows (the root is one), y: ms}, and the curve that was measured at load, {x: rows, y: ms}. */
  function cost(model) {
    const steps = model.steps.slice(1), measured = model.header.environment.forward_ms ?? {};
    const rows = Object.keys(measured).map(Number).sort((a, b) => a - b);
    return {
      points: { x: steps.map((step) => RestViz.verified(step) + 1), y: steps.map((step) => step.times.forward) },
      curve: { x: rows, y: rows.map((n) => measured[n]) },
    };
  }

  Object.assign(RestViz, { histogram, byDepth, cost, ORIGINS });
})((globalThis.RestViz = globalThis.RestViz || {}));
