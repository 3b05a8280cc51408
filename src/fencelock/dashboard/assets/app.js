// The frame: which view is shown, one question a second while somebody looks, keys, theme.

import { Feed, takeToken } from "./api.js";
import { blockers } from "./blockers.js";
import { askToken, revoke, showKeys } from "./dialogs.js";
import { setText } from "./dom.js";
import { events } from "./events.js";
import { LIVE_SECONDS } from "./format.js";
import { graph } from "./graph.js";
import { lock } from "./lock.js";
import { locks } from "./locks.js";
import { signals } from "./signals.js";

const EVERY_MS = 1000;
const PATIENCE_MS = 15000;
const VIEWS = { locks, graph, blockers, events, signals, lock };
const ORDER = ["#/", "#/graph", "#/blockers", "#/events", "#/signals"];

const content = document.getElementById("content");
const live = document.getElementById("live");
const trouble = document.getElementById("trouble");
const pause = document.getElementById("pause");

let shown = null; // {view, feed, name, stop}
let paused = false;
let timer = 0;
let seen = null; // when the server was seen as it is shown, by this browser's clock

// -- views ---------------------------------------------------------------------------------------

function asked() {
  const [, name = "", rest = ""] = /^#\/([a-z]*)\/?(.*)$/s.exec(location.hash) ?? [];
  const found = Object.hasOwn(VIEWS, name) ? name : "locks";
  return { name: found, argument: decoded(rest) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  const first = shown === null;
  shown?.stop.abort();
  const { name, argument } = asked();
  content.replaceChildren();
  const view = VIEWS[name].make(content, argument, { revoke: (what) => revoke(what, poll) });
  shown = { view, feed: new Feed(VIEWS[name].path(argument)), stop: new AbortController() };
  document.title = `${VIEWS[name].title(argument)} – fencelock`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.view === name || (name === "lock" && link.dataset.view === "locks");
    if (here) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  if (!first) content.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  poll();
}

// -- questions -----------------------------------------------------------------------------------

async function poll() {
  clearTimeout(timer);
  const { view, feed, stop } = shown;
  const begun = performance.now();
  try {
    const answer = await feed.next(AbortSignal.any([stop.signal, AbortSignal.timeout(PATIENCE_MS)]));
    if (stop.signal.aborted) return;
    const heard = performance.now();
    view.update(answer.data, answer.now, answer.age);
    report(answer, begun, heard);
  } catch (error) {
    if (stop.signal.aborted) return;
    complain(error);
  }
  schedule(begun);
}

function schedule(begun) {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  timer = setTimeout(poll, Math.max(100, EVERY_MS - (performance.now() - begun)));
}

function report(answer, begun, heard) {
  const server = document.getElementById("server");
  const cost = document.getElementById("cost");
  setText(server, `${answer.data.server} · prefix ${JSON.stringify(answer.data.prefix)} · fencelock ${answer.data.version}`);
  setText(cost, `refreshed in ${Math.round(performance.now() - begun)} ms`);
  cost.dataset.total = String(performance.now() - begun);
  cost.dataset.drawn = String(performance.now() - heard);
  setTrouble(answer.trouble ? `${answer.trouble.replace(/\.$/, "")}. This is the last state that was seen.` : "");
  seen = heard - 1000 * answer.age;
  tellAge();
}

function complain(error) {
  if (error.status === 401) {
    paused = true;
    return askToken(error.message, () => { paused = false; poll(); });
  }
  const reason = error.status ? error.message : "The dashboard does not answer";
  setTrouble(`${reason}. This is the last state that was seen.`);
}

function setTrouble(text) {
  setText(trouble, text);
  trouble.hidden = text === "";
}

// Says how old the shown state is, also while no question is answered.
function tellAge() {
  if (seen === null) return;
  const seconds = Math.floor((performance.now() - seen) / 1000);
  const age = seconds < LIVE_SECONDS ? "" : `updated ${seconds} s ago`;
  live.dataset.state = paused ? "" : age ? "stale" : "live";
  setText(live, paused ? `paused${age && ", "}${age}` : age || "live");
}

// -- tools ---------------------------------------------------------------------------------------

function togglePause() {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  setText(pause, paused ? "Go on" : "Pause");
  tellAge();
  if (!paused) poll();
}

const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

function setTheme() {
  const chosen = localStorage.getItem("fencelock-theme") ?? "auto";
  const actual = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  document.documentElement.dataset.theme = actual;
  setText(document.getElementById("theme"), { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[chosen] ?? "◐ Auto");
}

function nextTheme() {
  const now = THEMES.indexOf(localStorage.getItem("fencelock-theme") ?? "auto");
  localStorage.setItem("fencelock-theme", THEMES[(now + 1) % THEMES.length]);
  setTheme();
}

const KEYS = {
  "?": showKeys,
  p: togglePause,
  ...Object.fromEntries(ORDER.map((hash, place) => [String(place + 1), () => { location.hash = hash; }])),
};

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest("input, textarea, select");
  if (typing) {
    if (event.key === "Escape") typing.blur();
    return;
  }
  const act = shown?.view.keys[event.key] ?? KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

takeToken();
setTheme();
dark.addEventListener("change", setTheme);
pause.addEventListener("click", togglePause);
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", showKeys);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
document.addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", () => { if (!document.hidden && shown && !paused) poll(); });
window.addEventListener("hashchange", () => { takeToken(); show(); });
setInterval(tellAge, 500);
show();
