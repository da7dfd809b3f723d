// Draws the charts as wide as the page, in its colours, and again when either changes.
"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const AXIS = 66, GAP = 14;
let drawnWidth = 0;

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

function draw() {
  const width = document.querySelector("main").clientWidth - 2 * parseFloat(getComputedStyle(document.querySelector("main")).paddingLeft);
  drawnWidth = width;
  for (const { name, panels, spec } of charts) {
    const copy = structuredClone(spec);
    copy.spec.width = Math.floor((width - AXIS - GAP * (panels - 1)) / panels);
    if (width < 600) copy.spacing = GAP / 2;
    const options = {
      actions: false, renderer: "svg", config: config(dark.matches, width < 600), tooltip: { theme: dark.matches ? "dark" : "light" },
    };
    vegaEmbed(document.getElementById(name), copy, options).catch(console.error);
  }
}

let timer = 0;
window.addEventListener("resize", () => {
  clearTimeout(timer);
  timer = setTimeout(() => { if (document.querySelector("main").clientWidth !== drawnWidth) draw(); }, 150);
});
dark.addEventListener("change", draw);
draw();
