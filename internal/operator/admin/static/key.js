// Key: everything that is known about one key, at an address of its own.

import { getJSON, inQuery, inside, serverNow } from "./api.js";
import { Chart, day, quarter } from "./chart.js";
import {
  $, cellRate, clientLink, clientsText, clock, count, decoded, el, keyNode, otherThan,
  overrideText, percent, plainKey, problemText, rate,
  readableNode, setText, times,
} from "./text.js";
import { enforceText, perSecond } from "./hot.js";
import { clientActs } from "./lists.js";
import { wouldText } from "./overrides.js";
import { isHeld } from "./still.js";
import { WhatIf } from "./whatif.js";

const every = 1000; // milliseconds between two polls

export class KeyView {
  #path = ""; #timer = 0; #known = null; #asking = false; #act; #chart; #whatIf; #points = []; #since = 0; #day = false;
  #remember; #writable = false;

  // The buttons call act(kind, hotKey), the form calls apply(override). remember({span}) keeps in the address which
  // time the chart shows.
  constructor(act, apply, remember) {
    [this.#act, this.#remember] = [act, remember];
    this.#chart = new Chart($("key-chart"), $("key-tip"));
    this.#whatIf = new WhatIf(apply);
    for (const button of document.querySelectorAll("#key-acts button")) {
      button.addEventListener("click", () => this.#known && this.#act(button.dataset.act, hotOf(this.#known)));
    }
    for (const [id, whole] of [["key-15m", false], ["key-24h", true]]) {
      $(id).addEventListener("click", () => {
        this.#remember({ span: whole ? "day" : "" });
        this.#choose(whole);
      });
    }
  }

  // show begins with the key of an address, percent-encoded as in the address.
  show(path) {
    this.hide();
    this.#path = path;
    [this.#known, this.#points, this.#since, this.#asking] = [null, [], 0, false];
    $("key-body").hidden = true;
    setText($("key-trouble"), "");
    $("key-name").replaceChildren(keyNode(decoded(path)));
    $("key-json").href = inside(`/v1/key?key=${inQuery(path)}`);
    $("view-key").setAttribute("aria-label", plainKey(decoded(path)));
    this.#choose(new URLSearchParams(location.search).get("span") === "day");
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  hide() { clearInterval(this.#timer); }

  writable(yes) {
    this.#writable = yes;
    $("key-acts").hidden = !yes;
    this.#whatIf.writable(yes);
  }

  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    const path = this.#path;
    try {
      const [known, news] = await Promise.all([
        getJSON(`/v1/key?key=${inQuery(path)}`),
        getJSON(`/v1/key/seconds?key=${inQuery(path)}&since=${this.#since}`),
      ]);
      if (path !== this.#path) return;
      const other = otherThan(path, known);
      if (other) return void setText($("key-trouble"), other);
      this.#fill(known);
      this.#add(news);
    } catch (problem) {
      if (path === this.#path) setText($("key-trouble"), problemText(problem));
    } finally {
      if (path === this.#path) this.#asking = false;
    }
  }

  #fill(k) {
    const first = this.#known == null;
    this.#known = k;
    setText($("key-trouble"), (k.warnings ?? []).join("; "));
    $("key-name").replaceChildren(keyNode(k.key), readableNode(k.key));
    $("key-body").hidden = false;
    const found = k.detected ?? k.loop;
    setText($("key-state"), k.hot ? "hot" : k.loop ? "a loop" : "not hot");
    const why = k.hot && found?.why ? ` · by ${found.why}` : "";
    setText($("key-since"), found ? `since ${clock(found.since)}${why}` : "");
    const cost = costOf(k);
    const pace = paceOf(k);
    setText($("key-rate"), cellRate(pace, cost));
    $("key-rate-unit").hidden = cost !== "" || pace == null;
    setText($("key-rate-legend"), cost ? "Cost, at the right" : "Rate");
    this.#chart.of(cost);
    const over = found && k.rule && (k.rule.cost ?? "") === cost && times(found.rate, k.rule.hot_rate, "threshold");
    const past = found && times(found.rate, found.baseline, "its baseline");
    setText($("key-times"), found ? [over, past, clientsText(found)].filter(Boolean).join(" · ") : "");
    for (const name of ["allowed", "denied"]) {
      const known = k[`${name}_per_second`];
      setText($(`key-${name}`), rate(known));
      $(`key-${name}-unit`).hidden = known == null;
    }
    setText($("key-served"), k.served_per_second > 0 ? `${rate(k.served_per_second)}/s from the cache` : "");
    this.#showSenders(k.senders, found);
    if (!this.#day) setText($("key-chart-note"), drawnText(k));
    $("key-limits").replaceChildren(...[overrideLine(k), triedLine(k), ...k.limits.map(limitLine)].filter(Boolean));
    const would = k.would_deny_per_second;
    setText($("key-would"), would > 0 ? `would deny ${rate(would)}/s in shadow mode` : "");
    const enforce = $("key-acts").querySelector("[data-act=enforce]");
    enforce.hidden = k.tried?.source !== "live";
    setText(enforce, enforceText(k));
    $("key-acts").querySelector("[data-act=clear]").hidden = k.override?.source !== "live";
    if (!first) return;
    if (this.#day) this.#choose(true); // the cost is known now
    const { limit, threshold } = hotOf(k);
    const begin = perSecond(limit) || threshold || pace || 1;
    this.#whatIf.begin(this.#path, k.key, { rate: begin, burst: limit?.burst, cost });
  }

  #add({ at, seconds, cost = "" }) {
    if (cost !== costOf(this.#known)) { // the rule was changed: these seconds are of another unit
      for (const s of seconds) s.rate = null;
    }
    this.#since = at; // the current second is fetched again when it has ended
    const known = new Map(this.#points.map((p) => [p.at, p]));
    for (const s of seconds) {
      known.set(s.at * 1000, {
        ...s, at: s.at * 1000, allowed: s.allowed ?? 0, denied: s.denied ?? 0, would: s.would_deny,
      });
    }
    this.#points = [...known.values()].filter((p) => p.at > (at - 900) * 1000);
    if (!this.#day) this.#chart.set(this.#points);
    $("key-would-legend").hidden = !this.#chart.has("would");
  }

  // choose shows the last fifteen minutes by the second, or the last day by the minute.
  async #choose(whole) {
    this.#day = whole;
    $("key-15m").setAttribute("aria-pressed", String(!whole));
    $("key-24h").setAttribute("aria-pressed", String(whole));
    setText($("key-chart-note"), "");
    this.#chart.across(whole ? day : quarter);
    if (!whole) return this.#chart.set(this.#points);
    this.#chart.set([]);
    const path = this.#path;
    try {
      const from = Math.floor(serverNow() / 1000) - 86400;
      const { keys } = await getJSON(`/v1/history?limit=2000&from=${from}&key=${inQuery(path)}`);
      if (path !== this.#path || !this.#day) return undefined;
      const cost = this.#known ? costOf(this.#known) : "";
      this.#chart.set(keys.map((k) => ({
        at: Date.parse(k.minute), allowed: k.allowed / 60, denied: k.denied / 60,
        would: (k.would_deny ?? 0) / 60,
        rate: (k.cost ?? "") === cost ? k.rate : null,
      })));
    } catch (problem) {
      setText($("key-chart-note"), problem.message);
    }
    return undefined;
  }

  // showSenders lists the recent clients and networks of the key, and the spellings that they used. Networks can be
  // limited from this list.
  #showSenders(s, found) {
    $("key-senders").hidden = s == null && !found?.heaviest_client;
    setText($("key-sampled"), s ? `of ${count(s.sampled)} sampled requests` : "");
    const heaviest = found?.heaviest_client && el("li", {}, clientLink(found.heaviest_client),
      el("span", { class: "note" }, `the heaviest client, ${percent(found.client_share)}`));
    const link = (name) => (name.includes("/") && !name.startsWith("/") ? clientLink(name) : keyNode(name));
    const part = ({ name, share }, ...acts) =>
      el("li", {}, link(name), el("span", { class: "note" }, percent(share)), ...acts);
    const fill = (id, parts, none) => {
      if (isHeld($(id))) return;
      $(id).replaceChildren(...(parts?.length > 0 ? parts : [el("li", { class: "note" }, none)]));
    };
    const acts = ({ name }) => (this.#writable && name.includes("/") ? [clientActs({ cidr: name }, this.#act)] : []);
    const networks = (s?.prefixes ?? []).map((p) => part(p, ...acts(p)));
    fill("key-prefixes", [heaviest, ...networks].filter(Boolean), "not known");
    fill("key-classes", s?.classes?.map((p) => part(p)), s ? "none" : "not known");
    fill("key-spellings", s?.spellings?.map((p) => part(p)),
      !s || s.spellings ? "not known" : "not kept, because the rules redact values");
  }
}

// drawnText explains the line of the limit, if that is not the configured number.
function drawnText(k) {
  const held = k.limits.find((l) => l.applies && (l.source === "override" || l.source === "rule"))?.limit;
  if (held?.adaptive) return "The chart shows the limit in force, which follows the capacity of the upstream.";
  if (held?.in_flight && !held.window_ms) {
    return `The limit is ${held.in_flight} requests in flight, without a rate to draw.`;
  }
  return "";
}

// costOf returns the cost in whose units the rate of a key is, or "" if it is of requests.
const costOf = (k) => (k.detected ?? k.loop ?? k.rule)?.cost ?? "";

// paceOf returns the rate of a key in units of its cost: as it was detected, or as limiters decide on it, or null if
// neither is known.
function paceOf(k) {
  const found = k.detected ?? k.loop;
  if (found) return found.rate;
  return costOf(k) || k.allowed_per_second == null ? null
    : k.allowed_per_second + k.served_per_second + k.denied_per_second;
}

// hotOf returns a key as the buttons of a hot key take it.
function hotOf(k) {
  const held = k.limits.find((l) => l.limit && (l.source === "override" || l.source === "rule"));
  return {
    key: k.key, cost: k.rule?.cost, threshold: k.rule?.hot_rate, limit: held?.limit, override: k.override,
    tried: k.tried,
  };
}

const sources = {
  override: "Override", rule: "Rule", client_fixed: "Per client and rule", client_sliding: "Per client and rule, long",
  ip_fixed: "Per address", ip_sliding: "Per address, long", ip_in_flight: "In flight per address",
};

// limitLine shows a limit and why it applies or not. A limit of a client says whether it denies the client.
export function limitLine(l) {
  return el("li", { class: l.applies ? "applies" : "rests" },
    el("b", {}, sources[l.source] ?? l.source), " ", el("span", {}, l.limit?.text ?? ""),
    el("span", { class: "badge" }, l.denies ? "denies it now" : l.applies ? "applies" : "does not apply"),
    el("span", { class: "note" }, l.why));
}

function overrideLine({ override: o }) {
  if (!o) return null;
  const about = [
    plainKey(o.reason ?? ""), o.author && `by ${plainKey(o.author)}`, o.until && `until ${clock(o.until)}`,
  ].filter(Boolean).join(" · ");
  return el("li", { class: "applies" },
    el("b", {}, "Set by a person"), " ", overrideText(o), el("span", { class: "note" }, about));
}

// triedLine shows the override in shadow mode that would decide about the key.
function triedLine({ tried: o }) {
  if (!o) return null;
  return el("li", { class: "rests" }, el("b", {}, "Tried by a person"), " ", el("span", {}, overrideText(o)),
    el("span", { class: "badge" }, "denies no request"), el("span", { class: "note" }, wouldText(o)));
}
