// The three dialogs: take a lock away, give the token, and the keys.

import { post, setToken, token } from "./api.js";
import { h, named } from "./dom.js";
import { person } from "./format.js";

function open(...content) {
  const dialog = h("dialog", { close: () => dialog.remove() }, ...content);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function toast(text) {
  document.querySelector(".toast")?.remove();
  const node = h("div", { class: "toast", role: "status" }, text);
  document.body.append(node);
  setTimeout(() => node.remove(), 6000);
}

// Asks for a reason, which the holder will read, and takes the lock away from what was shown.
export function revoke({ name, fence, holders, only }, done) {
  const whose = only ? [only] : holders;
  const reason = h("textarea", { id: "reason", rows: 2, maxlength: 200, required: true });
  const secret = h("input", { id: "token", type: "password", autocomplete: "off", value: token() });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: "danger solid" }, "Revoke");
  const form = h("form", { method: "dialog", submit: (event) => { event.preventDefault(); send(); } },
    h("h2", {}, "Revoke ", named(name)),
    h("p", {}, "It is taken from ", ...whose.flatMap((who, place) => [place ? ", " : "", named(person(who))]),
      " at once. The holder is notified with your reason, and the next waiter is granted the lock."),
    h("label", { for: "reason" }, "Reason, for the holder"), reason,
    h("label", { for: "token" }, "Token of this dashboard"), secret,
    problem,
    h("div", { class: "buttons" }, h("button", { type: "button", click: () => dialog.close() }, "Cancel"), button));
  const dialog = open(form);
  reason.focus();
  reason.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  async function send() {
    button.disabled = true;
    setToken(secret.value);
    const process = only && !only.foreign ? { host: only.host, pid: only.pid } : null;
    try {
      await post("api/revoke", { name, fence: only ? only.fence : fence, reason: reason.value, only: process });
      dialog.close();
      toast(`${name} was revoked`);
      done();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      button.disabled = false;
    }
  }
}

let asking = null;

export function askToken(message, done) {
  if (asking?.open) return;
  const secret = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const form = h("form", { method: "dialog", submit: () => { setToken(secret.value); done(); } },
    h("h2", {}, "Token"),
    h("p", {}, message, ". The command that started the dashboard printed it, or was given it."),
    h("label", { for: "token" }, "Token of this dashboard"), secret,
    h("div", { class: "buttons" }, h("button", { type: "submit" }, "Go on")));
  asking = open(form);
  secret.focus();
}

const KEYS = [
  ["/", "filter"], ["j, k, ↓, ↑", "the next lock, the one before"], ["Enter", "look into it"], ["Esc", "back to all locks"],
  ["1 … 4", "locks, who blocks whom, top blockers, events"], ["r", "revoke the lock that is shown; Ctrl-Enter sends the reason"],
  ["p", "pause, go on"], ["?", "this list"],
];

export function showKeys() {
  open(h("h2", {}, "Keys"),
    h("dl", { class: "facts" }, KEYS.flatMap(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)])),
    h("form", { method: "dialog", class: "buttons" }, h("button", { autofocus: true }, "Close")));
}
