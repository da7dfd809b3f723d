// The page of `netstack lab`: takes messages of the lab, and lets each part of the page draw its share.
//
// For tests, these hooks stay as they are:
//
//   #name #time #speed #state (data-state: running, paused, behind, restarting, down, ended, failed, lost) #state-text
//   #backlog
//   #pause #step #step-size (next or seconds) #pace (seconds a second, or "fastest")
//   #back-form #back-slider #back-to #back
//   #fork #forked #keep-a #keep-b #act-a #act-b #copy
//   #copied (dialog) #copied-title #toml #copy-text #copy-done #download #close-copied
//   #banner #refused #refused-text #dismiss #detail #spoken
//   #last [data-side] [data-figure] (of the last checkpoint)
//   #experiments [data-experiment="slow", "debloating" or "unaligned"], .effect
//   #sides [data-side] .replay, > .vertex[data-vertex] canvas, .edge[data-edge] canvas, .edge .sums
//   #controls [data-group] [data-control="<key>"][data-vertex="<name or empty>"] (the input itself),
//   [data-slider="<key>"][data-vertex=...]
//   #take-checkpoint #subtask #kill-subtask #task-manager #kill-task-manager #cut-form #link #cut-seconds #cut
//   #outage-form #outage-seconds #outage
//   #span (seconds or "all") #series [data-chart="<field of rows>"]
//   #checkpoints [data-checkpoint="<id>"][data-side], .pending, .failed; #incidents li[data-side]
//   #reading #reading-text #reading-problem #try-again, body[data-reading] is "true" while a job is read from Flink
//   #flink #flink-state (data-state: running, recorded, away, waiting, gone) #flink-text #read-again
//   #flink-vertices [data-vertex] [data-of="flink", "a" or "b"] [data-figure], #flink-job [data-of] [data-figure]
//   body[data-connected] is "true" while messages can come

import { Checkpoints } from "./checkpoints.js";
import { Clock } from "./clock.js";
import { Connection } from "./connection.js";
import { Controls } from "./controls.js";
import { Copying } from "./copying.js";
import { refreshDetail } from "./detail.js";
import { byId, setHidden, setText } from "./dom.js";
import { Experiments } from "./experiments.js";
import { Faults } from "./faults.js";
import { Flink } from "./flink.js";
import { Incidents } from "./incidents.js";
import { listenToKeys } from "./keys.js";
import { Last } from "./last.js";
import { Model } from "./model.js";
import { Series } from "./series.js";
import { Sides } from "./sides.js";
import { whenThemeChanges } from "./theme.js";

const model = new Model();
const connection = new Connection(hear, connectionChanged);

function say(message) {
  forgetRefusal();
  if (!connection.say(message)) refuse("There is no connection to the lab. Start netstack lab again, and open its address.");
}

function forgetRefusal() {
  setHidden(byId("refused"), true);
  controls.forgetRefusal();
}

const clock = new Clock(model, say);
const controls = new Controls(model, say);
const experiments = new Experiments(model, say);
const faults = new Faults(model, say);
const copying = new Copying(model, say);
const sides = new Sides(model, say, {
  redraw,
  chosen: (vertex, subtask) => faults.choose(vertex, subtask),
  actsOn: () => { controls.update(); experiments.update(); },
});
const series = new Series(model, byId("series"), byId("span"));
const last = new Last(model);
const checkpoints = new Checkpoints(model);
const incidents = new Incidents(model);
const flink = new Flink(model, say);

let asked = false;

// Draw once before the next picture of the screen, whatever has come until then.
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (model.hello === null) return;
    if (document.body.dataset.connected === "true") clock.draw();
    refreshDetail();
    if (sides.draw()) redraw();
  });
}

function hear(message) {
  if (message.type === "refused") refuse(message.text);
  else if (message.type === "copied") copying.show(message);
  else if (message.type === "reading") {
    connectionChanged(null);
    flink.showReading(message);
    clock.read(message.problem !== null);
  }
  else showNews(model.take(message));
}

function showNews(what) {
  switch (what) {
    case "job":
      setText(byId("name"), model.hello.name);
      document.title = `${model.hello.name} · netstack lab`;
      sides.build();
      series.build();
      last.build();
      experiments.build();
      checkpoints.build();
      greeted();
      break;
    case "sides": greeted(); break;
    case "frame":
      redraw();
      last.draw();
      checkpoints.draw();
      experiments.draw();
      break;
    case "row": series.draw(); break;
    case "checkpoint":
      last.draw();
      checkpoints.draw();
      break;
    case "incident": incidents.draw(); break;
    case "flink": flink.draw(); break;
  }
}

function greeted() {
  connectionChanged(null);
  flink.greeted();
  sides.update();
  controls.update();
  experiments.update();
  faults.update();
  clock.update();
  series.draw();
  last.draw();
  checkpoints.draw();
  incidents.draw();
  redraw();
}

function refuse(text) {
  setHidden(byId("refused"), false);
  setText(byId("refused-text"), text);
  controls.refused(text);
  experiments.refused();
}

function connectionChanged(problem) {
  document.body.dataset.connected = String(problem === null);
  const banner = byId("banner");
  setText(banner, problem ?? "");
  setHidden(banner, problem === null);
  if (problem !== null) clock.lose();
}

// The height of the header, and that of its part that stays in sight on a narrow page, for the style sheet.
const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => {
  document.documentElement.style.setProperty(target.id ? "--pinned" : "--header", `${target.offsetHeight}px`);
}));
for (const each of [document.querySelector("header"), byId("pinned")]) sizes.observe(each);

byId("dismiss").addEventListener("click", forgetRefusal);
listenToKeys({ pause: () => clock.togglePause(), step: () => clock.step() });
whenThemeChanges(redraw);
connection.open();
