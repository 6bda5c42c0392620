// Audit and health: the parts of the pipeline, whether this program is ready, which limiters lag, the rates that
// upstreams can take, the webhooks, and the changes that people made.

import { at, getJSON, inside } from "./api.js";
import { $, cell, el, keyNode, lasting, overrideText, plainKey, rate, setText, targetNode, zoned } from "./text.js";
import { Webhooks } from "./webhooks.js";

const most = 200; // number of changes shown
const every = 5000; // milliseconds between two polls while the view is open

export class AuditView {
  #timer = 0; #known = ""; #webhooks = new Webhooks($("webhooks"));

  show() {
    this.hide();
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  hide() { clearInterval(this.#timer); }

  // state fills the list of parts from a state of the stream.
  state({ status }) {
    $("parts").replaceChildren(...status.map((s) => row(s.ok, s.name, s.value)));
    $("parts-empty").hidden = status.length > 0;
  }

  async #ask() {
    await Promise.all([
      this.#ready(), this.#audit(), this.#webhooks.ask(), list("limiters", limiterRow), list("upstreams", upstreamRow),
    ]);
  }

  async #ready() {
    let answer;
    try {
      answer = await (await fetch(at("/readyz"))).json(); // a response 503 has the same body
    } catch {
      return setText($("ready"), "unknown: the server cannot be reached");
    }
    const checks = Object.entries(answer.checks).sort(([a], [b]) => a.localeCompare(b));
    const rows = checks.map(([name, c]) => row(c.ok, name, c.error || `answered in ${c.took_ms} ms`));
    $("checks").replaceChildren(...rows);
    return setText($("ready"), answer.ready ? "ready" : "not ready: receives no new requests");
  }

  async #audit() {
    let answer;
    try {
      answer = await getJSON(`/v1/audit?limit=${most}`);
    } catch (problem) {
      this.#known = "";
      return setText($("audit-note"), problem.message);
    }
    const known = JSON.stringify(answer);
    if (known === this.#known) return undefined; // so that links keep the focus
    this.#known = known;
    const rows = entries(answer);
    setText($("audit-note"), 
      [rows.length === 0 && "Nothing was changed.", answer.trouble ? "As last read." : "",
        answer.rules_error && "Changes of the rules are not known now."].filter(Boolean).join(" "));
    $("audit").hidden = rows.length === 0;
    $("audit").tBodies[0].replaceChildren(...rows);
    return undefined;
  }
}

// list fills the list of that name with the response of the route of the same name.
async function list(name, toRow) {
  let all = [];
  try {
    all = (await getJSON(`/v1/${name}`))[name];
    setText($(`${name}-note`), all.length === 0 ? "none" : "");
  } catch (problem) {
    setText($(`${name}-note`), problem.message);
  }
  $(name).replaceChildren(...all.map(toRow));
}

export const lag = (l) => (l.current ? "has every override" : `lacks a change for ${lasting(l.behind_ms ?? 0)}`);

function limiterRow(l) {
  const silence = `silent for ${lasting(l.heard_ms_ago)}: killed or cut off; it continues with its last state`;
  return row(l.current && !l.silent, plainKey(l.instance), [lag(l), l.silent && silence].filter(Boolean).join("; "));
}

function upstreamRow(u) {
  const bears = u.limited ? `takes ${rate(u.rate)}/s and ${rate(u.in_flight_cap)} in flight` : "is not limited";
  const latency = `${Math.round(u.latency_seconds * 1000)} ms of ${Math.round(u.target_seconds * 1000)} ms`;
  const lost = u.unreachable && "its target cannot be met by any limit";
  const late = u.missed && !u.unreachable && "misses its target";
  const why = u.why !== "not limited" && plainKey(u.why); // that is said already
  return row(!u.missed, plainKey(u.name), [bears, latency, late, why, lost].filter(Boolean).join(" · "));
}

const row = (ok, name, text) => el("li", { class: ok ? "good" : "poor" },
  el("span", { class: "dot", "aria-hidden": "true" }), el("b", {}, name),
  el("span", {}, ok ? "" : "failing: ", text));

const did = {
  put: "set", delete: "removed", undo: "undone", reset: "limits reset", purge: "cached responses purged",
  purge_history: "history of a key purged",
};

// entries returns the rows of all changes, of overrides, rules and other things, newest first.
function entries({ changes, rules }) {
  const all = changes.map((c) => [c.at, () => change(c)]);
  for (const r of rules ?? []) all.push([r.at, () => ruleChange(r)]);
  return all.sort(([a], [b]) => Date.parse(b) - Date.parse(a)).slice(0, most).map(([, row]) => row());
}

function entry(at, author, of, what, reason) {
  return el("tr", {},
    cell("When", "", el("time", { datetime: at }, zoned(at))),
    cell("Who", "", plainKey(author || "–")),
    el("th", { scope: "row", class: "keycell" }, of),
    cell("Change", "", what), cell("Reason", "", plainKey(reason || "–")));
}

function change(c) {
  const o = c.after ?? c.before, name = did[c.action] ?? plainKey(c.action);
  if (!o) return entry(c.at, c.author, keyNode(c.of || c.id || "–"), name);
  const was = c.before && c.after ? ` (was ${overrideText(c.before)})` : "";
  return entry(c.at, c.author, targetNode(o), `${name}: ${overrideText(o)}${was}`, o.reason);
}

function ruleChange(r) {
  const link = el("a", { href: inside("/rules") }, "rules");
  return entry(r.at, r.author, link, `version ${r.version} pushed`, r.reason);
}
