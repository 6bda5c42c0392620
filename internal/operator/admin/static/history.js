// History: when the heaviest keys of an hour, a day, a week or any span were requested, the events of that time, and
// any of its minutes in numbers. A span that ends now follows the time.

import { getJSON, inside, serverNow } from "./api.js";
import { item } from "./feed.js";
import { Heatmap } from "./heatmap.js";
import { isHeld } from "./still.js";
import {
  $, cell, cellRate, clock, costRate, count, cutLink, el, keyNode, lasting, overrideText, plainKey, problemText,
  setText,
} from "./text.js";

const spans = { hour: 3600, day: 86_400, week: 7 * 86_400, month: 30 * 86_400 }; // seconds
const least = 600; // seconds: the shortest span, unless a person chose another
const every = 10_000; // milliseconds between two polls, or six times that if a cell is longer than a minute
const mostEvents = 200; // that are listed

export class HistoryView {
  #map; #asked = 0; #askedMinute = 0; #step = 60; #span = null; #keys = []; #overrides = []; #go; #remember;
  #timer = 0; #polls = 0;
  #before = []; #zooming = false;

  // go(path) shows another time, and remember({from, to, last, minute}) keeps the chosen minute in the address.
  constructor(go, remember) {
    [this.#go, this.#remember] = [go, remember];
    this.#map = new Heatmap($("heatmap"), {
      told: (c) => this.#tell(c), chosen: (c) => this.#choose(c), out: () => this.#zoomOut(),
      marked: ({ from, until }) => this.#zoom(from / 1000, until / 1000),
    });
    $("history-live").addEventListener("click", () => this.#toggle());
    $("history-out").addEventListener("click", () => this.#zoomOut());
  }

  // show reads the time from the address: ?last=day, or ?from=&to= in seconds, or else the last time that has data.
  async show() {
    this.hide();
    if (!this.#zooming) this.#before = [];
    this.#zooming = false;
    this.#span = span();
    this.#keys = [];
    $("minute").hidden = true;
    this.#timer = setInterval(() => this.#poll(), every);
    await this.#ask(true);
  }

  hide() { clearInterval(this.#timer); }

  // state shows a warning while the program does not keep the history as it should.
  state({ status }) {
    const kept = status.find((s) => s.name === "history");
    const trouble = $("history-trouble");
    trouble.hidden = kept == null || kept.value === "written";
    if (!trouble.hidden) setText(trouble, `The history is ${plainKey(kept.value)}. Detection and limits go on.`);
  }

  // present takes the overrides that are in force now.
  present(list) { this.#overrides = list; }

  #poll() {
    if (this.#span.fixed || document.hidden || this.#map.isMarking) return;
    if (++this.#polls % (this.#step > 60 ? 6 : 1) === 0) this.#ask(false);
  }

  // ask fetches the time that is shown. fresh is true if a person has just chosen it; its picture then ends a mark in
  // the picture before it.
  async #ask(fresh) {
    const asked = ++this.#asked, s = this.#span;
    try {
      const m = s.search ? await search(s) : await heatmap(moved(s));
      if (asked === this.#asked && (fresh || !this.#map.isMarking)) this.#fill(m, fresh);
    } catch (problem) {
      if (asked === this.#asked) setText($("history-note"), problemText(problem));
    }
  }

  #fill(m, fresh) {
    const { from, to, fixed, last } = this.#span, begin = Date.parse(m.from), end = Date.parse(m.to);
    this.#step = m.step;
    m.events.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
    setText($("history-time"), `${clock(from * 1000)} to ${clock(to * 1000)}`);
    for (const link of document.querySelectorAll("#history-spans a")) {
      if (last && link.search === `?last=${last}`) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    $("history-live").setAttribute("aria-pressed", String(!fixed));
    $("history-out").hidden = !fixed;
    for (const format of ["csv", "json"]) {
      $(`history-${format}`).href = inside(`/v1/history?format=${format}&limit=100000&from=${from}&to=${to}`);
    }
    setText($("history-note"), m.keys.length === 0 ? "No key was seen in this time." : "");
    this.#fillKeys(m);
    const whole = m.step * 1000 * Math.ceil((end - begin) / (m.step * 1000)); // the last cell may not be over
    const times = [begin, begin + whole / 2, begin + whole];
    $("history-axis").replaceChildren(...times.map((at) => el("span", {}, clock(at))));
    this.#map.show({ ...m, keys: this.#keys }, this.#overrides);
    $("heatmap-scale").replaceChildren(...Object.entries(this.#map.most).map(scale));
    if (fresh) setText($("heatmap-told"), `A cell is ${lasting(m.step * 1000)}; choose one to look closer.`);
    this.#fillEvents(m);
    const chosen = Number(new URLSearchParams(location.search).get("minute")) * 1000;
    if (m.step !== 60 || m.keys.length === 0) $("minute").hidden = true;
    else this.#minute(begin <= chosen && chosen < end ? chosen : end - 60_000, fresh);
  }

  // fillKeys names the rows. While a person is in the picture its rows stay, and new keys come below them.
  #fillKeys({ keys }) {
    const list = $("history-keys"), same = (a) => (b) => a.href === b.href && a.cost === b.cost;
    if (isHeld(list) || isHeld($("heatmap"))) {
      const kept = this.#keys.map((k) => keys.find(same(k)) ?? { ...k, cells: [] });
      keys = [...kept, ...keys.filter((k) => !kept.some(same(k)))];
    }
    const names = (all) => all.map((k) => k.href).join("\n");
    if (names(keys) !== names(this.#keys) || list.children.length !== keys.length) {
      list.replaceChildren(...keys.map((k) => el("li", {}, cutLink(k))));
    }
    this.#keys = keys;
    $("heatmap").hidden = $("history-axis").hidden = $("heatmap-scale").hidden = keys.length === 0;
  }

  // fillEvents lists the newest events first, and says where the list ends if it has not all of them.
  #fillEvents({ events, truncated }) {
    const list = $("history-events"), newest = events.slice(-mostEvents).reverse();
    if (isHeld(list)) return;
    const was = list.firstChild?.querySelector("time").dateTime;
    if (list.children.length !== newest.length || was !== newest[0]?.at) {
      list.replaceChildren(...newest.map((e) => item({ ...e.detail, ...e })));
    }
    const all = truncated ? "more than 1,000" : count(events.length);
    setText($("history-events-note"), newest.length === 0 ? "No events in this time."
      : newest.length < events.length
        ? `The newest ${mostEvents} of ${all}, back to ${clock(newest.at(-1).at)}; a shorter time has older ones.`
        : "");
  }

  #tell({ at, from, until, events, key, cell, holds }) {
    setText($("heatmap-told"), from ? `${clock(from)} to ${clock(until)} · ${lasting(until - from)}; Escape drops it`
      : events ? eventsText(events) : `${clock(at)} · ${plainKey(key.key)} · ${cellText(cell, key, holds)}`);
  }

  // choose looks closer at a cell: first a day, then some hours, then the minute.
  #choose({ at, until }) {
    if (this.#step === 60) {
      this.#fix(at / 1000);
      return this.#minute(at, true).then(() => $("minute").scrollIntoView({ block: "nearest" }));
    }
    const wide = this.#step >= 3600 ? spans.day : 3 * spans.hour;
    const to = Math.min(Math.floor(serverNow() / 1000), Math.floor((at + until) / 2000 + wide / 2));
    return this.#zoom(to - wide, to);
  }

  // fix keeps the span that is shown, and a minute of it, in the address. It does not follow the time any more.
  #fix(minute = "") {
    const { from, to } = this.#span;
    this.#span = { from, to, fixed: true };
    this.#remember({ last: "", from, to, minute });
    $("history-live").setAttribute("aria-pressed", "false");
    $("history-out").hidden = false;
  }

  #toggle() {
    if (this.#span.fixed) this.#go("/history");
    else this.#fix();
  }

  #zoom(from, to) {
    this.#before.push(location.search);
    this.#show(`?from=${Math.floor(from)}&to=${Math.ceil(to)}`);
  }

  // zoomOut goes back to the time from which the person zoomed in, or else shows three times the span.
  #zoomOut() {
    const { from, to } = this.#span, now = Math.floor(serverNow() / 1000);
    const end = Math.min(now, to + (to - from)), wider = `?from=${end - 3 * (to - from)}&to=${end}`;
    this.#show(this.#before.pop() ?? wider);
  }

  #show(search) {
    this.#zooming = true;
    this.#go(`/history${search}`);
  }

  async #minute(at, fresh) {
    const from = Math.floor(at / 60_000) * 60, body = $("minute-table").tBodies[0];
    if (!fresh && isHeld(body)) return;
    const asked = ++this.#askedMinute;
    setText($("minute-title"), `The minute of ${clock(from * 1000)}`);
    try {
      const { keys } = await getJSON(`/v1/history?from=${from}&to=${from + 59}&limit=1000`);
      if (asked !== this.#askedMinute) return;
      $("minute").hidden = false;
      body.replaceChildren(...keys.sort(heavier).map((k) => el("tr", {},
        el("th", { scope: "row", class: "keycell" }, keyNode(k.key)),
        cell("Rule", "minor", plainKey(k.rule ?? "")), cell("State", "", k.state),
        cell("Rate", "num minor", cellRate(k.rate, k.cost)), cell("Peak", "num", cellRate(k.peak, k.cost)),
        cell("Allowed", "num", some(k.allowed)), cell("Denied", "num", some(k.denied)),
        cell("Would deny", "num", some(k.allowed == null ? null : k.would_deny ?? 0)),
        cell("Clients", "num minor", k.clients ? count(k.clients) : "–"))));
      $("minute-table").hidden = keys.length === 0;
      const over = (from + 60) * 1000 <= serverNow();
      setText($("minute-note"), keys.length > 0 ? ""
        : over ? "No key was seen in this minute." : "This minute is not over; its numbers come with its end.");
    } catch (problem) {
      setText($("minute-note"), problem.message);
    }
  }
}

// heavier orders keys by cost and then by peak, because rates of two costs cannot be compared.
const heavier = (a, b) => (a.cost ?? "").localeCompare(b.cost ?? "") || b.peak - a.peak;

// some writes a number of requests, or a dash if no limiter reported it.
const some = (n) => (n == null ? "–" : count(n));

function cellText(cell, key, holds) {
  const held = holds.map(({ override: o }) => overrideText(o) + (o.author ? ` by ${plainKey(o.author)}` : ""));
  const by = held.length > 0 ? ` · override: ${held.join("; ")}` : "";
  if (!cell) return `not among the heaviest keys${by}`;
  const limited = cell.allowed == null ? "verdicts unknown"
    : `${count(cell.allowed)} allowed and ${count(cell.denied)} denied by its limit${
      cell.would_deny > 0 ? `, ${count(cell.would_deny)} would be denied in shadow mode` : ""}`;
  const state = cell.state === "cold" ? "not hot" : cell.state;
  return `${state}, at most ${costRate(cell.peak, key.cost)}, ${limited}${by}`;
}

// eventsText describes a stack of events, which has at least one.
function eventsText(events) {
  const said = (e) => [...item({ ...e.detail, ...e }).querySelectorAll("p")].map((p) => p.textContent).join(": ");
  const more = events.length > 3 ? ` · and ${count(events.length - 3)} more` : "";
  return `${clock(events[0].at)} · ${events.slice(0, 3).map(said).join(" · ")}${more}`;
}

// scale shows how strong a cell is by its rate. The heatmap draws the same strengths.
function scale([cost, most]) {
  return el("span", { class: "scale" }, "0 ", ...[0, 1, 2, 3, 4].map(() => el("i")), ` ${costRate(most, cost)}`);
}

const heatmap = ({ from, to }) => getJSON(`/v1/history/heatmap?from=${from}&to=${to}`);

// moved brings a span that follows the time up to now. It grows up to the length that it may have.
function moved(s) {
  if (!s.fixed) {
    s.to = Math.floor(serverNow() / 1000);
    s.from = Math.max(s.from, s.to - s.most);
  }
  return s;
}

// search finds the shortest of the known spans that has data, and shortens it to begin where they begin.
async function search(s) {
  let m;
  for (const most of [spans.day, spans.week, spans.month]) {
    s.to = Math.floor(serverNow() / 1000);
    [s.most, s.from] = [most, s.to - most];
    m = await heatmap(s);
    if (m.keys.length > 0) break;
  }
  s.search = m.keys.length === 0;
  while (m.keys.length > 0) {
    const first = Date.parse(m.from) / 1000 + m.step * Math.min(...m.keys.map((k) => k.cells[0].at));
    const from = Math.min(first, s.to - least);
    if (from - s.from < (s.to - s.from) / 10) break;
    s.from = from; // cells may be shorter now, and show the begin more exactly
    m = await heatmap(s);
  }
  return m;
}

function span() {
  const query = new URLSearchParams(location.search);
  const now = Math.floor(serverNow() / 1000);
  const [from, to] = ["from", "to"].map((name) => Number(query.get(name)));
  if (Number.isInteger(from) && Number.isInteger(to) && 0 < from && from < to) return { from, to, fixed: true };
  const last = query.get("last"), most = spans[last];
  return most ? { from: now - most, to: now, most, last } : { from: now - spans.day, to: now, search: true };
}
