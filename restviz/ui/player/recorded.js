/* Recorded runs that come with RestViz (restviz/ui/bundled.py): a folder for each prompt, a trace for each method. */
(function (RestViz) {
  "use strict";

  /** The traces of a prompt, {method: trace}. */
  async function recorded(folder, name, methods) {
    const traces = await Promise.all(methods.map(async (method) => {
      const file = `${method}.json.gz`;
      return RestViz.readTrace(new File([await (await fetch(new URL(`${name}/${file}`, folder))).blob()], file));
    }));
    return Object.fromEntries(methods.map((method, i) => [method, traces[i]]));
  }

  /** The same as `Player.open` wants them, with one of them `shown`. */
  function opened(traces, name, shown, invitation) {
    const { autoregressive: baseline, ...rest } = traces, trace = traces[shown], { environment: env, created } = trace.header;
    const day = new Date(created).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });
    return {
      trace, baseline: trace === baseline ? null : baseline, others: Object.values(rest).filter((other) => other !== trace), link: { run: name },
      from: `A recorded run, made on ${day} on ${env.device_name || env.device} with ${RestViz.plural(env.threads, "thread")} in ${env.dtype}. ${invitation}`,
    };
  }

  /** Show the run that a query names by ?run=, ?method= and ?step=, or the first. */
  async function openRecorded(player, folder, runs, query, invitation) {
    const asked = query.get("run"), name = runs[asked] ? asked : Object.keys(runs)[0], { methods, shown } = runs[name];
    const method = methods.includes(query.get("method")) ? query.get("method") : shown, traces = await recorded(folder, name, methods);
    if (player.model) return; // a run was quicker
    player.open(opened(traces, name, method, invitation));
    player.seek(Number.parseInt(query.get("step") ?? Math.min(4, traces[method].steps.length - 1), 10) || 0);
  }

  /** Plotly, from its file, so that nothing waits for it; null where it cannot be had. */
  function loadPlotly(src) {
    return new Promise((resolve) => {
      document.head.append(RestViz.el("script", { src, on: { load: () => resolve(globalThis.Plotly), error: () => resolve(null) } }));
    });
  }

  /** A page that shows recorded runs, and needs no server: ?run=…&method=…&step=… says which. */
  async function showRecorded(host, { base, runs }) {
    const at = (path) => new URL(path, document.baseURI), query = new URLSearchParams(location.search), asked = query.get("run");
    const player = RestViz.createPlayer(host, { plotly: loadPlotly(at(base + "plotly.min.js").href), link: location.origin + location.pathname });
    try {
      await openRecorded(player, at(base + "runs/"), runs, query, "Traces of your own can be opened below.");
      if (asked && !runs[asked]) player.fail(`There is no recorded run “${asked}” here, only ${Object.keys(runs).join(", ")}.`);
    } catch { player.fail("The recorded run could not be read: it has to be beside this page, and the page served over http."); }
  }

  Object.assign(RestViz, { recorded, openRecorded, loadPlotly, showRecorded });
})((globalThis.RestViz = globalThis.RestViz || {}));
