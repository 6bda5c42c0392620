// History: when the heaviest keys of an hour, a day or a week were requested, the events of that time, and any of its
// minutes in numbers.

import { getJSON, inside, serverNow } from "./api.js";
import { item } from "./feed.js";
import { Heatmap } from "./heatmap.js";
import {
  $, cell, cellRate, clock, costRate, count, el, keyLink, keyNode, lasting, plainKey, problemText, setText,
} from "./text.js";

const spans = { hour: 3600, day: 86_400, week: 7 * 86_400 }; // seconds

export class HistoryView {
  #map; #asked = 0; #step = 60; #span = null; #go; #remember;

  // go(path) shows another time, and remember({from, to, last, minute}) keeps the chosen minute in the address.
  constructor(go, remember) {
    [this.#go, this.#remember] = [go, remember];
    this.#map = new Heatmap($("heatmap"), (c) => this.#tell(c), (c) => this.#zoom(c));
  }

  // show reads the time from the address: ?last=day, or ?from=&to= in seconds.
  async show() {
    const { from, to } = this.#span = span();
    for (const link of document.querySelectorAll("#history-spans a")) {
      if (link.search === (location.search || "?last=day")) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    setText($("history-time"), `${clock(from * 1000)} to ${clock(to * 1000)}`);
    for (const format of ["csv", "json"]) {
      $(`history-${format}`).href = inside(`/v1/history?format=${format}&limit=100000&from=${from}&to=${to}`);
    }
    const asked = ++this.#asked;
    try {
      const m = await getJSON(`/v1/history/heatmap?from=${from}&to=${to}`);
      if (asked === this.#asked) this.#fill(m);
    } catch (problem) {
      if (asked !== this.#asked) return;
      setText($("history-note"), problemText(problem));
    }
  }

  // state shows a warning while the program does not keep the history as it should.
  state({ status }) {
    const kept = status.find((s) => s.name === "history");
    const trouble = $("history-trouble");
    trouble.hidden = kept == null || kept.value === "written";
    if (!trouble.hidden) setText(trouble, `The history is ${plainKey(kept.value)}. Detection and limits go on.`);
  }

  #fill(m) {
    this.#step = m.step;
    setText($("history-note"), m.keys.length === 0 ? "No key was seen in this time." : "");
    $("history-keys").replaceChildren(...m.keys.map((k) => el("li", {}, keyLink(k))));
    $("heatmap").hidden = $("history-axis").hidden = m.keys.length === 0;
    const begin = Date.parse(m.from), end = Date.parse(m.to);
    const times = [begin, (begin + end) / 2, end];
    $("history-axis").replaceChildren(...times.map((at) => el("span", {}, clock(at))));
    this.#map.show(m);
    setText($("heatmap-told"), `A cell is ${lasting(m.step * 1000)}; choose one to look closer.`);
    const events = m.events.toReversed().slice(0, 200).map((e) => item({ ...e.detail, ...e }));
    $("history-events").replaceChildren(...events);
    const none = events.length === 0 && "No events in this time.";
    setText($("history-events-note"), none || (m.truncated ? "There were more events." : ""));
    $("minute").hidden = true;
    const chosen = Number(new URLSearchParams(location.search).get("minute")) * 1000;
    if (m.step === 60 && m.keys.length > 0) {
      this.#minute(begin <= chosen && chosen < end ? chosen : end - 60_000);
    }
  }

  #tell({ at, key, cell }) {
    const limited = cell?.allowed == null ? "verdicts unknown"
      : `${count(cell.allowed)} allowed and ${count(cell.denied)} denied by its limit${
        cell.would_deny > 0 ? `, ${count(cell.would_deny)} would be denied in shadow mode` : ""}`;
    const about = cell ? `${cell.state}, at most ${costRate(cell.peak, key.cost)}, ${limited}`
      : "not among the heaviest keys";
    setText($("heatmap-told"), `${clock(at)} · ${plainKey(key.key)} · ${about}`);
  }

  // zoom looks closer at a cell: first a day, then some hours, then the minute.
  #zoom({ at, until }) {
    if (this.#step === 60) {
      const { from, to } = this.#span;
      this.#remember({ last: "", from, to, minute: at / 1000 });
      return this.#minute(at);
    }
    const wide = this.#step >= 3600 ? spans.day : 3 * spans.hour;
    const to = Math.min(Math.floor(serverNow() / 1000), Math.floor((at + until) / 2000 + wide / 2));
    return this.#go(`/history?from=${to - wide}&to=${to}`);
  }

  async #minute(at) {
    const from = Math.floor(at / 60_000) * 60;
    try {
      const { keys } = await getJSON(`/v1/history?from=${from}&to=${from + 59}&limit=1000`);
      $("minute").hidden = false;
      setText($("minute-title"), `The minute of ${clock(from * 1000)}`);
      $("minute-table").tBodies[0].replaceChildren(...keys.sort(heavier).map((k) => el("tr", {},
        el("th", { scope: "row", class: "keycell" }, keyNode(k.key)),
        cell("Rule", "", plainKey(k.rule ?? "")), cell("State", "", k.state),
        cell("Rate", "num", cellRate(k.rate, k.cost)), cell("Peak", "num", cellRate(k.peak, k.cost)),
        cell("Allowed", "num", some(k.allowed)), cell("Denied", "num", some(k.denied)),
        cell("Would deny", "num", some(k.allowed == null ? null : k.would_deny ?? 0)),
        cell("Clients", "num", k.clients ? count(k.clients) : "–"))));
      $("minute-table").hidden = keys.length === 0;
      setText($("minute-note"), keys.length === 0 ? "No key was seen in this minute." : "");
    } catch (problem) {
      setText($("minute-note"), problem.message);
    }
  }
}

// heavier orders keys by their peaks, those of each cost together, because rates of two costs cannot be compared.
const heavier = (a, b) => (a.cost ?? "").localeCompare(b.cost ?? "") || b.peak - a.peak;

// some writes a number of requests, or a dash if no limiter reported it.
const some = (n) => (n == null ? "–" : count(n));

function span() {
  const query = new URLSearchParams(location.search);
  const now = Math.floor(serverNow() / 1000);
  const [from, to] = ["from", "to"].map((name) => Number(query.get(name)));
  if (Number.isInteger(from) && Number.isInteger(to) && 0 < from && from < to) return { from, to };
  return { from: now - (spans[query.get("last")] ?? spans.day), to: now };
}
