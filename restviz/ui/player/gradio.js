/* The glue between Gradio and the player; the only file here that knows Gradio.

   The component's value is one message as JSON (restviz/ui/runner.py makes it): some steps of a run, and what is going
   on.  Gradio may drop a value when a newer one comes at once, so every message says which steps it carries; steps that
   are missing are fetched with server.steps.  Messages are handled strictly one after another. */
(function (RestViz) {
  "use strict";

  const ids = (model) => model.tokens.map((token) => token.id);

  /** The target's look before each token of the answer. */
  const looks = (model) => model.steps.flatMap((step) => step.looks.map(({ token, p }) => ({ token, p })));

  function answer(text) {
    const data = JSON.parse(text);
    if (data.error) throw new Error(data.error);
    return data;
  }

  let plotly = null; // one load for both tabs

  /** What a player needs of this page. */
  const inside = (server, { base, fields }) => ({
    plotly: (plotly ??= RestViz.loadPlotly(new URL(base + "plotly/plotly.min.js", document.baseURI).href)),
    isDark: () => document.body.classList.contains("dark"),
    fields,
    whatIf: async (model, changes, position) => answer(await server.what_if([model.header, ids(model), changes, position, position === null ? null : looks(model)])),
    places: async (model, step, node) => answer(await server.places([model.header, ids(model).slice(0, model.start[step.index]), step, node])).places,
    template: new URL(base + "export.html", document.baseURI).href,
    link: location.origin + location.pathname,
  });

  const themed = (player) => new MutationObserver(() => player.theme()).observe(document.body, { attributes: true, attributeFilter: ["class"] });

  /** The tab with the lessons: `lessons` of restviz/ui/lesson.py, the other options as below. */
  RestViz.connectLessons = (element, server, options) => {
    const folder = new URL(options.base + "runs/", document.baseURI);
    const { player } = RestViz.learn(element.querySelector(".rv-learn-host"), {
      ...inside(server, options), lessons: options.lessons, live: location.pathname,
      runs: (name) => RestViz.recorded(folder, name, options.runs[name].methods),
    });
    themed(player);
  };

  /** @param options {base, fields, runs}: where the player's files are, see whatif.js, and name -> {methods, shown} */
  RestViz.connect = (element, props, server, watch, options) => {
    const { base, runs } = options, player = RestViz.createPlayer(element.querySelector(".rv-host"), inside(server, options));
    themed(player);
    RestViz.player = player; // one a page; tests read it
    if (location.hash.length > 1) document.querySelector("#rv-tabs [role=tab]:nth-of-type(2)")?.click(); // a link to a lesson
    const models = new Map(); // run id -> TraceModel

    let last = null; // id of the run that came last

    async function steps(message) {
      let model = models.get(message.run);
      if (!model && last && !models.get(last).finish) await steps({ run: last, from: Infinity, steps: [] }); // its end was dropped
      last = message.run;
      const have = model ? model.steps.length : 0;
      if (!model ? message.from > 0 || !message.header : message.from > have) {
        Object.assign(message, JSON.parse(await server.steps([message.run, have])));
      }
      if (!model) {
        if (message.baseline) player.setBaseline(await baseline(message.baseline));
        models.set(message.run, (model = player.start(message.header, message)));
      }
      message.steps.forEach((step, k) => {
        if (message.from + k === model.steps.length) player.push(step, message.text, message.bytes, message.at[k]);
      });
      if (message.environment) model.header.environment = message.environment;
      if (message.end && !model.finish) player.finish(message.end, message.check, message.answer);
    }

    /** A baseline measured earlier in this session: usually still here and whole, else fetched. */
    async function baseline(id) {
      if (!models.get(id)?.finish) {  // its last message may be the one that was dropped
        const message = JSON.parse(await server.steps([id, 0]));
        models.set(id, RestViz.TraceModel.from({
          header: message.header, steps: message.steps, finish: message.end, text: message.answer, token_text: message.text, token_bytes: message.bytes,
        }));
      }
      return models.get(id);
    }

    let queue = Promise.resolve();
    const listen = () => {
      const message = JSON.parse(props.value);
      if (message.n === undefined) return; // nothing was said yet
      queue = queue.then(async () => {
        if (message.run) await steps(message);
        if (message.footer !== undefined) player.foot(message.footer);
        if (message.note !== undefined) player.note(message.note, message.busy);
        player.fail(message.error);
      }).catch((error) => player.fail("The page could not show a step: " + error.message));
    };
    watch("value", listen);
    listen(); // what a link has wrong may be said before anyone listens

    async function first() { // something real to look at while the model loads
      const query = new URLSearchParams(location.search), asked = query.get("run");
      if (query.has("prompt") || (asked !== null && !runs[asked])) return;
      await RestViz.openRecorded(player, new URL(base + "runs/", document.baseURI), runs, query, "Press Run to make one here.").catch(() => null);
    }
    first();

    let loading = ""; // what was said of it last
    async function engine() {
      try {
        const state = JSON.parse(await server.engine(0));
        player.foot(state.footer);
        if (state.error) player.fail(state.error);
        else {
          const now = player.view.note.textContent;
          if (now === "" || now === loading) player.note((loading = state.note)); // a run may have something else to say
          if (state.ready) [player, RestViz.learning?.player].forEach((one) => one?.whatIf.refresh()); // it may have been asked before there was anyone to answer
          else setTimeout(engine, 700);
        }
      } catch { setTimeout(engine, 3000); }
    }
    engine();
  };
})((globalThis.RestViz = globalThis.RestViz || {}));
