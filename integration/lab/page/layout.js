// Where vertices, edges and channels stand. The rank of each vertex comes from the lab.

export const BOX_HEIGHT = 92;
const ROW_GAP = 62;
const [GAP, MARGIN] = [8, 4];
const [LEAST_WIDTH, MOST_WIDTH] = [48, 300];
const LANE = 14; // pixels beside the boxes for each edge that crosses rows
const TURN = 14; // pixels from a box to where such an edge turns

// Boxes and lines for a graph `width` pixels wide: {height, boxes: [{left, top, width}], routes: [{points, label}]}.
// A row has the vertices of a rank. Edges between neighbouring rows are straight, others have lanes beside the boxes.
export function graphLayout(vertices, edges, width) {
  const crossing = edges.filter((edge) => vertices[edge.target].rank > vertices[edge.source].rank + 1);
  const inner = width - LANE * crossing.length;
  const rows = [];
  vertices.forEach(({ rank }, place) => (rows[rank] ??= []).push(place));
  const most = Math.max(...rows.map((row) => row.length));
  const boxWidth = Math.max(LEAST_WIDTH, Math.min(MOST_WIDTH, (inner - 2 * MARGIN + GAP) / most - GAP));
  const boxes = vertices.map(({ rank }, place) => {
    const left = (inner - rows[rank].length * (boxWidth + GAP) + GAP) / 2;
    return {
      left: left + rows[rank].indexOf(place) * (boxWidth + GAP),
      top: MARGIN + rank * (BOX_HEIGHT + ROW_GAP),
      width: boxWidth,
    };
  });
  const straight = edges.filter((edge) => !crossing.includes(edge));
  const routes = edges.map((edge) => {
    const [start, end] = [port(edges, boxes, edge, "source"), port(edges, boxes, edge, "target")];
    if (straight.includes(edge)) {
      const share = labelShare(vertices, straight, edge);
      return { points: [start, end], label: [start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share] };
    }
    const lane = inner + LANE * (crossing.indexOf(edge) + 0.5);
    const [top, bottom] = [start[1] + TURN, end[1] - TURN];
    const points = [start, [start[0], top], [lane, top], [lane, bottom], [end[0], bottom], end];
    return { points, label: [(end[0] + lane) / 2, bottom] };
  });
  return { height: rows.length * (BOX_HEIGHT + ROW_GAP) - ROW_GAP + 2 * MARGIN, boxes, routes };
}

// Where an edge leaves its source or reaches its target: edges stand beside each other, in their order.
function port(edges, boxes, edge, end) {
  const { left, top, width } = boxes[edge[end]];
  const beside = edges.filter((other) => other[end] === edge[end]);
  const x = left + (width * (beside.indexOf(edge) + 1)) / (beside.length + 1);
  return [x, end === "source" ? top + BOX_HEIGHT : top];
}

// Labels of edges that leave the same row alternate between two heights; one alone stands in the middle.
function labelShare(vertices, edges, edge) {
  const beside = edges.filter((other) => vertices[other.source].rank === vertices[edge.source].rank);
  if (beside.length === 1) return 0.5;
  beside.sort((one, other) => one.source - other.source);
  return beside.indexOf(edge) % 2 === 0 ? 0.27 : 0.73;
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
