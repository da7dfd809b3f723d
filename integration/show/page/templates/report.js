// Draws the charts as wide as the page, in its colours, and again when either changes.
"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const detail = JSON.parse(document.getElementById("detail").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const select = document.getElementById("checkpoint");
const AXIS = 66, GAP = 14;
const views = {};
let drawnWidth = 0, chosen = "";

function config(isDark, isNarrow) {
  const text = isDark ? "#e7e9ec" : "#1c1e21", quiet = isDark ? "#9aa3ae" : "#5d646d", line = isDark ? "#30353c" : "#e2e5e9";
  return {
    background: "transparent",
    font: getComputedStyle(document.body).fontFamily,
    padding: { left: 0, right: 4, top: 4, bottom: 4 },
    axis: {
      labelColor: quiet, titleColor: quiet, titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12,
      domainColor: quiet, tickColor: quiet, gridColor: line,
    },
    axisY: { minExtent: 32, maxExtent: 32 },
    header: { labelColor: text, labelFontSize: 13, labelFontWeight: "bold" },
    legend: { labelColor: text, labelFontSize: 12.5, symbolStrokeWidth: 4, columns: isNarrow ? 3 : 10 },
    view: { stroke: line },
  };
}

function pageWidth() {
  const main = document.querySelector("main");
  return main.clientWidth - 2 * parseFloat(getComputedStyle(main).paddingLeft);
}

function fitted(spec, panels, width) {
  const copy = structuredClone(spec);
  if (copy.spec) {
    copy.spec.width = Math.floor((width - AXIS - GAP * (panels - 1)) / panels);
    if (width < 600) copy.spacing = GAP / 2;
  } else {
    copy.width = width;
    copy.autosize = { type: "fit-x", contains: "padding" };
    if (width < 600 && copy.encoding?.x?.axis) copy.encoding.x.axis.tickCount = 4;
  }
  return copy;
}

async function embed(name, spec, panels, width) {
  const options = {
    actions: false, renderer: "svg", config: config(dark.matches, width < 600),
    // The page's policy allows no code made of text, and no style but its own.
    ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true },
    logLevel: 1,  // errors: a layer of a chart may have nothing to draw, of which Vega warns
  };
  const { view } = await vegaEmbed(document.getElementById(name), fitted(spec, panels, width), options);
  views[name] = view;
  return view;
}

// The bars of one checkpoint: each subtask's phases, one after the other.
function bars(checkpoint) {
  const phases = detail.spec.encoding.color.scale.domain;
  return checkpoint.parts.flatMap(([subtask, times, figures, texts]) => {
    let end = 0;
    return times.map((ms, phase) => ({ subtask, figures, part: phases[phase], takes: texts[phase], from_s: end / 1000, to_s: (end += ms) / 1000 }));
  });
}

function show() {
  const cut = select.value.lastIndexOf("#"), id = Number(select.value.slice(cut + 1));
  const run = detail.runs.find(({ name }) => name === select.value.slice(0, cut));
  const checkpoint = run.checkpoints.find((each) => each.id === id);
  const whose = detail.runs.length > 1 ? `${run.name}, checkpoint` : "Checkpoint";
  document.getElementById("checkpoint-text").textContent = `${whose} ${id}: ${checkpoint.text}`;
  const place = document.getElementById(detail.name);
  place.hidden = checkpoint.parts.length === 0;
  if (!place.hidden) {
    const spec = structuredClone(detail.spec);
    spec.data = { values: bars(checkpoint) };
    spec.encoding.y.sort = checkpoint.parts.map(([subtask]) => subtask);
    embed(detail.name, spec, 1, pageWidth()).catch(console.error);
  }
  views["checkpoint-history"]?.signal(detail.signal, chosen).runAsync().catch(console.error);
}

function choose(event, item) {
  const { run, id } = item?.datum ?? {};
  if (id === undefined) return;
  select.value = chosen = `${run}#${id}`;
  show();
}

function draw() {
  drawnWidth = document.querySelector("main").clientWidth;
  for (const { name, panels, spec } of charts) {
    embed(name, spec, panels, pageWidth()).then((view) => {
      if (name !== "checkpoint-history" || !select) return;
      view.addEventListener("click", choose);
      show();
    }).catch(console.error);
  }
}

if (select) {
  select.closest("figure").hidden = false;
  select.value = `${detail.runs[0].name}#${detail.runs[0].chosen}`;
  select.addEventListener("change", () => { chosen = select.value; show(); });
}
let timer = 0;
window.addEventListener("resize", () => {
  clearTimeout(timer);
  timer = setTimeout(() => { if (document.querySelector("main").clientWidth !== drawnWidth) draw(); }, 150);
});
dark.addEventListener("change", draw);
draw();
