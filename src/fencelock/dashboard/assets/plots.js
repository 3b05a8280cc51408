// The plots of one lock, as SVG: which process held it when, how many waited, how long.

import { svg } from "./dom.js";
import { clock, person, span } from "./format.js";

const WIDTH = 560;
const HATCH = "fencelock-hatch";
const LEFT = 44;
const BOTTOM = 20;

function frame(height, label, from, until) {
  const place = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label });
  const x = (time) => LEFT + ((Math.max(from, time) - from) / (until - from)) * (WIDTH - LEFT - 8);
  const base = height - BOTTOM;
  const stripes = svg("pattern", { id: HATCH, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { class: "ground", width: 6, height: 6 }), svg("line", { class: "stripe", x1: 0, y1: 0, x2: 0, y2: 6 }));
  place.append(svg("defs", {}, stripes));
  place.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 8, y1: base, y2: base }));
  for (let part = 0; part <= 3; part += 1) {
    const time = from + ((until - from) * part) / 3;
    const anchor = part === 0 ? "start" : part === 3 ? "end" : "middle";
    place.append(svg("text", { x: x(time), y: height - 5, "text-anchor": anchor }, clock(time)));
  }
  return { place, x, base };
}

function scale(place, base, top, text) {
  place.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 8, y1: top, y2: top }));
  place.append(svg("text", { x: LEFT - 6, y: top + 4, "text-anchor": "end" }, text));
  place.append(svg("text", { x: LEFT - 6, y: base, "text-anchor": "end" }, "0"));
}

// Hatches the times that no look saw: nothing is known of them.
function hatch(place, x, base, top, unseen, from, now) {
  for (const [begin, end] of unseen) {
    const left = x(Math.max(from, begin));
    const width = x(Math.min(now, end)) - left;
    if (width <= 0) continue;
    const box = svg("rect", { class: "unseen", fill: `url(#${HATCH})`, x: left, y: top, width, height: base - top });
    box.append(svg("title", {}, "This dashboard did not look, or got no answer."));
    place.append(box);
  }
}

// A bar for each tenure, in a lane for each process, the most recent ones first.
export function tenures(list, from, now, unseen) {
  const lanes = [...new Set(list.map((each) => person(each)).reverse())].slice(0, 6);
  const height = lanes.length * 34 + 8 + BOTTOM;
  const { place, x, base } = frame(height, "Which process held the lock when", from, now);
  hatch(place, x, base, 0, unseen, from, now);
  lanes.forEach((who, lane) => {
    place.append(svg("text", { x: LEFT, y: lane * 34 + 12 }, who));
    for (const each of list.filter((one) => person(one) === who)) {
      const start = x(each.since);
      const end = Math.max(start + 2, x(each.until));
      const bar = svg("rect", { class: "hold", x: start, y: lane * 34 + 17, width: end - start, height: 13, rx: 3 });
      bar.append(svg("title", {}, `${who}: ${span(each.until - each.since)}, fence ${each.fence}`));
      place.append(bar);
    }
  });
  return place;
}

// A step for each change of how many wait.
export function waiting(samples, from, now, unseen, dark) {
  const height = 130;
  const { place, x, base } = frame(height, "How many clients waited", from, now);
  const most = Math.max(1, ...samples.map(([, number]) => number));
  const top = 12;
  const y = (number) => base - (number / most) * (base - top);
  scale(place, base, top, String(most));
  hatch(place, x, base, top - 2, unseen, from, now);
  let path = "";
  samples.forEach(([time, number], step) => {
    const end = step + 1 < samples.length ? samples[step + 1][0] : now;
    path += `${path ? "L" : "M"}${x(time)} ${y(number)}L${x(end)} ${y(number)}`;
  });
  if (path) {
    const first = x(samples[0][0]);
    place.append(svg("path", { class: "area", d: `${path}L${x(now)} ${base}L${first} ${base}Z` }));
    place.append(svg("path", { class: "curve", d: path }));
  }
  hatch(place, x, base, top - 2, dark, from, now); // over the curve, of which nobody knows there
  return place;
}

// A point for each wait or loss that the history has, as high as it was long.
export function waits(events, from, now) {
  const height = 130;
  const { place, x, base } = frame(height, "How long clients waited", from, now);
  const most = Math.max(0.1, ...events.filter((each) => each.kind === "wait").map((each) => each.seconds));
  const top = 12;
  scale(place, base, top, span(most));
  for (const each of events.filter((one) => one.at >= from)) {
    const at = x(each.at);
    const y = base - Math.min(1, each.seconds / most) * (base - top);
    const bad = each.kind === "wait" ? "" : " bad";
    const dot = svg("circle", { class: `dot${bad}`, cx: at, cy: y, r: 3.6 });
    dot.append(svg("title", {}, `${each.kind}: ${person(each)}, ${span(each.seconds)}`));
    place.append(svg("line", { class: "stem", x1: at, x2: at, y1: base, y2: y }), dot);
  }
  return place;
}
