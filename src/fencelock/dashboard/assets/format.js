// Numbers, spans and people as text.

export const LIVE_SECONDS = 3; // what was seen longer ago is not called live

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${two(Math.floor((whole % 3600) / 60))}m`;
  return `${Math.floor(whole / 86400)}d${two(Math.floor((whole % 86400) / 3600))}h`;
}

export function since(then, now) {
  return then ? span(now - then) : "";
}

export function clock(unix) {
  return new Date(unix * 1000).toLocaleTimeString([], { hour12: false });
}

export function instant(unix) {
  const then = new Date(unix * 1000);
  const today = then.toDateString() === new Date().toDateString();
  return today ? clock(unix) : `${then.toLocaleDateString()} ${clock(unix)}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// How many threads and tasks wait. Of a line that is longer than what was listed, more may wait.
export function units(row) {
  return row.waiting.toLocaleString("en") + (row.waiting_more ? "+" : "");
}

export function process(who) {
  if (!who) return "";
  return who.foreign ? "not a fencelock client" : `${who.host}:${who.pid}`;
}

export function doing(who) {
  const more = who.others ? ` and ${who.others} more in turns` : "";
  return `${who.unit}${more}`;
}

export function person(who) {
  return [process(who), who.label].filter(Boolean).join(" · ");
}

const PARTS = { semaphore: (who) => count(who.permits, "permit"), rwlock: (who) => who.side };

export function part(kind, who) {
  return PARTS[kind] ? PARTS[kind](who) : "";
}

// What people do not call as the server does.
export const KINDS = { rwlock: "reader/writer lock", other: "not a lock" };
