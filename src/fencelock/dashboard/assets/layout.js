// Where the boxes of the graph stand. Holders are on the left, and those that wait for them in the
// columns to their right, the first beside its holder. The members of a cycle stand on a circle, in the order of their waits.

export const WIDE = 200;
export const HIGH = 48;
const COLUMN = WIDE + 170;
const ROW = HIGH + 18;
const GAP = 26;

export function layout(nodes, edges) {
  const behind = new Map(nodes.map((node) => [node.id, []]));
  const ahead = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of edges) {
    behind.get(edge.to).push(edge.from);
    ahead.get(edge.from).push(edge.to);
  }
  const places = new Map();
  let top = 0;
  for (const group of components(nodes, behind, ahead)) {
    top = place(group, behind, ahead, places, top) + GAP;
  }
  return { places, ...size(places) };
}

function components(nodes, behind, ahead) {
  const seen = new Set();
  const groups = [];
  for (const first of nodes) {
    if (seen.has(first.id)) continue;
    const ids = new Set([first.id]);
    for (const id of ids) for (const other of [...behind.get(id), ...ahead.get(id)]) ids.add(other);
    ids.forEach((id) => seen.add(id));
    groups.push(nodes.filter((node) => ids.has(node.id)));
  }
  return groups;
}

function place(group, behind, ahead, places, top) {
  const ring = ordered(group.filter((node) => node.cycle), ahead);
  const roots = ring.length ? ring : group.filter((node) => ahead.get(node.id).length === 0);
  const starts = roots.length ? roots : group.slice(0, 1);
  const seen = new Set(starts.map((node) => node.id));
  const children = tree(starts, behind, seen);
  if (!ring.length) {
    return starts.reduce((y, node) => stack(node.id, 0, y, children, places), top);
  }
  circle(ring, top, places);
  return ring.reduce((y, node) => hang(node.id, y, children, places), circleBottom(ring, places));
}

// Each waiter under the first holder that reaches it, breadth first.
function tree(starts, behind, seen) {
  const children = new Map();
  const queue = starts.map((node) => node.id);
  for (const id of queue) {
    const mine = behind.get(id).filter((other) => !seen.has(other) && seen.add(other));
    children.set(id, mine);
    queue.push(...mine);
  }
  return children;
}

function stack(id, left, top, children, places) {
  const mine = children.get(id) ?? [];
  let y = top;
  for (const child of mine) y = stack(child, left + COLUMN, y, children, places);
  const bottom = Math.max(y, top + ROW);
  places.set(id, { x: left, y: top });
  return bottom;
}

// Below the circle, and a little to the right of the member that they wait for.
function hang(id, top, children, places) {
  const left = places.get(id).x + WIDE / 2 + 40;
  return (children.get(id) ?? []).reduce((y, child) => stack(child, left, y, children, places), top);
}

// Follows the waits around, so that neighbours on the circle are neighbours in the cycle.
function ordered(ring, ahead) {
  const left = new Map(ring.map((node) => [node.id, node]));
  const sorted = [];
  let node = ring[0];
  while (node) {
    left.delete(node.id);
    sorted.push(node);
    const next = ahead.get(node.id).find((id) => left.has(id));
    node = left.get(next) ?? left.values().next().value;
  }
  return sorted;
}

function circle(ring, top, places) {
  const across = Math.max(WIDE * 1.05, (ring.length * WIDE) / 3);
  const down = ring.length === 2 ? 0 : Math.max(HIGH * 1.7, (ring.length * HIGH) / 2.2);
  const middle = top + Math.max(down, 48);
  ring.forEach((node, place) => {
    const angle = Math.PI + (2 * Math.PI * place) / ring.length;
    places.set(node.id, { x: across + across * Math.cos(angle), y: middle + down * Math.sin(angle) });
  });
}

function circleBottom(ring, places) {
  return Math.max(...ring.map((node) => places.get(node.id).y)) + HIGH + 64;
}

function size(places) {
  const all = [...places.values()];
  return {
    width: Math.max(0, ...all.map((each) => each.x)) + WIDE + 8,
    height: Math.max(0, ...all.map((each) => each.y)) + HIGH + 8,
  };
}
