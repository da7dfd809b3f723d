// The job of a side as a graph: a box for each vertex with a bar for each subtask, and edges with their sums.

import { element, setText, throttled } from "./dom.js";
import { buffers, percent } from "./format.js";
import { BOX_HEIGHT, graphLayout } from "./layout.js";
import { Picker } from "./picker.js";
import { colours, fillRect, sized, striped } from "./theme.js";
import { edgeSums, edgeWords, subtaskWords, withoutShares } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const BARS_HEIGHT = 34;
const LEAST_WINDOW = 600; // a graph that is not higher can stay in sight

export class Graph {
  // `chosen(vertex, subtask)` is called for a subtask that is clicked, `toEdge(number)` for an edge.
  constructor(hello, sideName, { redraw, chosen, toEdge }) {
    this.hello = hello;
    this.lines = document.createElementNS(SVG, "svg");
    this.lines.setAttribute("aria-hidden", "true");
    this.boxes = hello.vertices.map((vertex) => new VertexBox(vertex, sideName, redraw, chosen));
    this.labels = hello.edges.map((edge, number) => new EdgeLabel(hello, edge, () => toEdge(number)));
    this.element = element("div", { class: "graph", role: "group", "aria-label": `Graph of the job, side ${sideName}` },
      this.lines, ...this.boxes.map((box) => box.element), ...this.labels.map((label) => label.element));
    this.observer = new ResizeObserver(([entry]) => { this.#place(Math.floor(entry.contentRect.width)); redraw(); });
    this.observer.observe(this.element);
  }

  #place(width) {
    if (width === 0) return;
    const { height, boxes, routes } = graphLayout(this.hello.vertices, this.hello.edges, width);
    this.element.style.height = `${height}px`;
    this.element.classList.toggle("short", height < LEAST_WINDOW);
    this.lines.setAttribute("width", width);
    this.lines.setAttribute("height", height);
    this.lines.replaceChildren(...routes.map(({ points }) => this.#line(points)));
    this.boxes.forEach((box, number) => box.place(boxes[number]));
    this.labels.forEach((label, number) => {
      label.line = this.lines.children[number];
      label.place(routes[number].label);
    });
  }

  #line(points) {
    const line = document.createElementNS(SVG, "g");
    const path = document.createElementNS(SVG, "polyline");
    path.setAttribute("points", points.map((point) => point.join(",")).join(" "));
    const [x, y] = points.at(-1);
    const tip = document.createElementNS(SVG, "path");
    tip.setAttribute("d", `M${x},${y} l-5,-8 h10 z`);
    line.append(path, tip);
    return line;
  }

  draw(frame) {
    const runs = frame !== undefined && (frame.edges.length > 0 || this.labels.length === 0);
    this.boxes.forEach((box, number) => box.draw(frame?.subtasks[number], runs));
    this.labels.forEach((label, number) => label.draw(frame?.edges[number]));
  }

  close() {
    this.observer.disconnect();
  }
}

class VertexBox {
  #shares = undefined;
  #runs = false;
  #width = 0;

  constructor(vertex, sideName, redraw, chosen) {
    this.vertex = vertex;
    this.figures = element("p");
    this.canvas = element("canvas", {
      "aria-label": `Subtasks of ${vertex.name}, side ${sideName}; arrow keys go through them`,
    });
    this.element = element("section", { class: "vertex", "data-vertex": vertex.name, "aria-label": vertex.name },
      element("h3", { title: vertex.name }, element("span", { text: vertex.name }), element("small", { text: `× ${vertex.parallelism}` })),
      this.figures, this.canvas);
    this.picker = new Picker(this.canvas, {
      at: (x) => this.#at(x),
      beside: (place, across) => (place + across >= 0 && place + across < vertex.parallelism ? place + across : null),
      words: (place) => subtaskWords(vertex, place, this.#shares?.[place], this.#runs),
      drawn: redraw,
      chosen: (place) => chosen(vertex.name, place),
    });
    this.showFigures = throttled(() => setText(this.figures, meanWords(this.#shares, this.#runs, this.#width < 225)), 250);
  }

  place({ left, top, width }) {
    Object.assign(this.element.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${BOX_HEIGHT}px` });
    this.#width = Math.floor(width) - 18;
  }

  #at(x) {
    const place = Math.floor((x / this.#width) * this.vertex.parallelism);
    return place >= 0 && place < this.vertex.parallelism ? place : null;
  }

  draw(shares, runs) {
    this.#shares = shares;
    this.#runs = runs;
    if (this.#width <= 0) return;
    this.showFigures();
    const context = sized(this.canvas, this.#width, BARS_HEIGHT);
    const step = this.#width / this.vertex.parallelism;
    const gap = step >= 6 ? 2 : step >= 3 ? 1 : 0;
    for (let n = 0; n < this.vertex.parallelism; n++) this.#bar(context, n * step, step - gap, shares?.[n] ?? [0, 0, 0]);
    if (step < 6) {
      context.strokeStyle = colours.quiet;
      context.lineWidth = 1;
      context.strokeRect(0.5, 0.5, this.#width - 1, BARS_HEIGHT - 1);
    }
    if (this.picker.place !== null) {
      context.strokeStyle = colours.text;
      context.lineWidth = 2;
      context.strokeRect(this.picker.place * step + 1, 1, Math.max(1, step - gap - 2), BARS_HEIGHT - 2);
    }
  }

  // Busy is solid at the bottom, back-pressured striped on it, idle empty above.
  #bar(context, left, width, [busy, idle, pressured]) {
    const runs = busy + idle + pressured > 0;
    const [solid, stripes] = [busy * BARS_HEIGHT, pressured * BARS_HEIGHT];
    fillRect(context, runs ? colours.idle : colours.panel, left, 0, width, BARS_HEIGHT);
    fillRect(context, colours.busy, left, BARS_HEIGHT - solid, width, solid);
    const pattern = striped(context, colours.pressured, colours.page);
    fillRect(context, pattern, left, BARS_HEIGHT - solid - stripes, width, stripes);
    if (width < 4) return; // one frame around all of them has to do
    context.strokeStyle = colours.quiet;
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, 0.5, width - 1, BARS_HEIGHT - 1);
  }
}

function meanWords(shares, runs, short) {
  if (shares === undefined || shares.every((each) => each[0] + each[1] + each[2] === 0)) return withoutShares(runs);
  const mean = (part) => percent(shares.reduce((sum, each) => sum + each[part], 0) / shares.length);
  return short ? `busy ${mean(0)}` : `busy ${mean(0)}, back-pressured ${mean(2)}`;
}

// What stands on an edge: how it ships, what is queued, and barriers that are under way.
class EdgeLabel {
  line = null;

  constructor(hello, edge, toEdge) {
    const name = `${hello.vertices[edge.source].name} → ${hello.vertices[edge.target].name}`;
    this.ship = edge.ship;
    this.text = element("span");
    this.barriers = element("span", { class: "barriers", hidden: true });
    this.element = element("button", { type: "button", class: "label", onclick: toEdge }, this.text, this.barriers);
    this.showWords = throttled(() => {
      this.element.title = this.frame === undefined ? name : `${name}: ${edgeWords(edgeSums(this.frame))}`;
      this.element.setAttribute("aria-label", `${this.element.title}; show its channels`);
    }, 1000);
  }

  place([x, y]) {
    Object.assign(this.element.style, { left: `${x}px`, top: `${y}px` });
  }

  draw(frame) {
    this.frame = frame;
    this.showWords();
    if (frame === undefined) {
      setText(this.text, this.ship);
      this.barriers.hidden = true;
      this.line?.classList.remove("blocked");
      return;
    }
    const sums = edgeSums(frame);
    setText(this.text, `${this.ship}: ${buffers(sums.sender + sums.receiver)}`);
    const ids = [...new Set(frame.barriers.map((barrier) => barrier[2]))].sort((one, other) => one - other);
    this.barriers.hidden = ids.length === 0;
    setText(this.barriers, ids.join(" "));
    this.line?.classList.toggle("blocked", sums.blocked > 0);
  }
}
