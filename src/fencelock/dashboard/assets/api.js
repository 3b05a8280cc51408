// Asks the server of this page. The token is kept for this tab only, and sent in a header, never in
// an address: so no other page can use it, and no log has it.

const KEY = "fencelock-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function token() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setToken(text) {
  sessionStorage.setItem(KEY, text.trim());
}

// Takes the token out of an address like …/#token=…, which the command prints.
export function takeToken() {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (!match) return;
  setToken(decodeURIComponent(match[1]));
  history.replaceState(null, "", `${location.pathname}#/`);
}

function headers(more) {
  const own = token() ? { Authorization: `Bearer ${token()}` } : {};
  return { ...own, ...more };
}

async function failed(answer) {
  const told = await answer.json().catch(() => ({}));
  return new Refused(answer.status, told.error ?? `the dashboard answered ${answer.status}`);
}

// One view's data, which the server says is unchanged by a 304.
export class Feed {
  constructor(path) {
    this.path = path;
    this.tag = null;
    this.data = null;
  }

  async next(signal) {
    const more = this.tag ? { "If-None-Match": this.tag } : {};
    const answer = await fetch(this.path, { headers: headers(more), cache: "no-store", signal });
    if (answer.status !== 304 && !answer.ok) throw await failed(answer);
    if (answer.status !== 304) {
      this.tag = answer.headers.get("ETag");
      this.data = await answer.json();
    }
    const told = (name) => answer.headers.get(`Fencelock-${name}`);
    return { data: this.data, now: Number(told("Now")), age: Number(told("Age")), trouble: told("Trouble") };
  }
}

export async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), cache: "no-store",
  });
  if (!answer.ok) throw await failed(answer);
  return answer.json();
}
