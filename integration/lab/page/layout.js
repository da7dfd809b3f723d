// Where vertices, edges and channels stand. The order of vertices and layers comes from the lab.

export const BOX_HEIGHT = 92;
const LAYER_GAP = 62;
const MARGIN = 4;
const LANE = 14; // pixels between a box and an edge that passes it

// Boxes and lines for a graph `width` pixels wide: {height, boxes: [{left, top, width}], routes: [{points, label}]}.
export function graphLayout(vertices, edges, width) {
  const layers = [...new Set(vertices.map((vertex) => rounded(vertex.y)))].sort((one, other) => one - other);
  const boxWidth = widestBox(vertices, width);
  const boxes = vertices.map((vertex) => ({
    left: clamp(vertex.x * width - boxWidth / 2, MARGIN, width - boxWidth - MARGIN),
    top: MARGIN + layers.indexOf(rounded(vertex.y)) * (BOX_HEIGHT + LAYER_GAP),
    width: boxWidth,
    layer: layers.indexOf(rounded(vertex.y)),
  }));
  const height = layers.length * (BOX_HEIGHT + LAYER_GAP) - LAYER_GAP + 2 * MARGIN;
  const ports = portsOf(edges, boxes);
  const lines = edges.map((edge, place) => route(boxes, edge, ports[place], width));
  return { height, boxes, routes: labelled(lines, edges, boxes) };
}

function rounded(number) {
  return Math.round(number * 1000);
}

function clamp(number, least, most) {
  return Math.max(least, Math.min(most, number));
}

function widestBox(vertices, width) {
  let widest = Math.min(300, width - 2 * MARGIN);
  for (const one of vertices) {
    widest = Math.min(widest, Math.max(2 * Math.min(one.x, 1 - one.x) * width, 0.25 * width));
    for (const other of vertices) {
      const apart = Math.abs(one.x - other.x) * width;
      if (one !== other && rounded(one.y) === rounded(other.y)) widest = Math.min(widest, apart - 8);
    }
  }
  return Math.max(48, widest);
}

// Where each edge leaves its box and comes in: beside each other, in the order of their other ends.
function portsOf(edges, boxes) {
  const middle = (place) => boxes[place].left + boxes[place].width / 2;
  const spread = (own, end, far) => {
    const beside = edges.filter((each) => each[end] === own[end]).sort((a, b) => middle(a[far]) - middle(b[far]));
    const box = boxes[own[end]];
    return box.left + (box.width * (beside.indexOf(own) + 1)) / (beside.length + 1);
  };
  return edges.map((edge) => [spread(edge, "source", "target"), spread(edge, "target", "source")]);
}

function route(boxes, edge, [startX, endX], width) {
  const from = boxes[edge.source];
  const to = boxes[edge.target];
  const start = [startX, from.top + BOX_HEIGHT];
  const end = [endX, to.top];
  const points = [start];
  for (let layer = from.layer + 1; layer < to.layer; layer++) {
    const passed = boxes.filter((box) => box.layer === layer);
    const straight = start[0] + ((end[0] - start[0]) * (layer - from.layer)) / (to.layer - from.layer);
    const x = freePlace(passed, straight, width);
    points.push([x, passed[0].top - LANE], [x, passed[0].top + BOX_HEIGHT + LANE]);
  }
  points.push(end);
  return points;
}

// Labels of edges that leave the same layer stand in two rows, so that neighbours do not meet.
function labelled(lines, edges, boxes) {
  const layerOf = (place) => boxes[edges[place].source].layer;
  const halfway = (place) => lines[place][0][0] + lines[place][1][0];
  return lines.map((points, place) => {
    const beside = lines.map((_, each) => each).filter((each) => layerOf(each) === layerOf(place));
    beside.sort((one, other) => halfway(one) - halfway(other));
    const share = beside.length === 1 ? 0.5 : beside.indexOf(place) % 2 === 0 ? 0.3 : 0.7;
    const [[x, y], [nextX, nextY]] = points;
    return { points, label: [x + (nextX - x) * share, y + (nextY - y) * share] };
  });
}

// The place beside the boxes of a layer that is nearest to the wanted one.
function freePlace(boxes, wanted, width) {
  const sides = boxes.flatMap((box) => [box.left - LANE, box.left + box.width + LANE]);
  const isFree = (x) => boxes.every((box) => x <= box.left - 3 || x >= box.left + box.width + 3);
  const places = [wanted, ...sides].map((x) => clamp(x, 2, width - 2)).filter(isFree);
  places.sort((one, other) => Math.abs(one - wanted) - Math.abs(other - wanted));
  return places.length > 0 ? places[0] : clamp(wanted, 2, width - 2);
}

export const MOST_LINES = 32;
const [FEW_CELLS, IN_ROW_OF_FEW, IN_ROW_OF_MANY] = [256, 32, 64];

// How the cells of an edge of many channels stand: producers down and consumers across, or row by row.
export function matrixLayout(edge, producers, consumers) {
  const whole = !edge.summed && edge.channels.length === producers * consumers;
  const count = edge.channels.length;
  const columns = whole ? consumers : Math.min(count, count <= FEW_CELLS ? IN_ROW_OF_FEW : IN_ROW_OF_MANY);
  return { whole, columns, rows: Math.ceil(count / columns) };
}
