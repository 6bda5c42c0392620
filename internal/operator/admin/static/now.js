// Now: the hot keys of this second, the sums of all requests, and recent events.

import { Chart } from "./chart.js";
import { Feed, named } from "./feed.js";
import { HotTable } from "./hot.js";
import { closestList, deniedList, heaviestList, loopList } from "./lists.js";
import { reasons } from "./reasons.js";
import { $, clock, rate, setText } from "./text.js";

export class NowView {
  #chart; #feed; #hot; #lists; #closest; #paused = false; #latest = null; #writable = false;

  // The buttons of a hot key call act(kind, hotKey). remember(values) keeps the choice of keys in the address.
  constructor(act, remember) {
    this.#chart = new Chart($("chart"), $("chart-tip"));
    this.#feed = new Feed($("events"), $("events-empty"), $("events-cut"));
    this.#hot = new HotTable($("hot"), act, remember);
    this.#lists = {
      loops: loopList($("loops"), act), clients: deniedList($("clients"), act),
      heaviest: heaviestList($("heaviest"), act),
    };
    this.#closest = closestList($("closest"));
    $("pause").addEventListener("click", () => this.#pause(!this.#paused));
  }

  open() { this.#hot.restore(new URLSearchParams(location.search)); }

  offer(writable) {
    this.#writable = writable;
    if (!this.#paused && this.#latest) this.#draw();
  }

  hello(h, writable) {
    this.#chart.set(h.history.map((p) => ({ ...p, would: p.would_deny, at: Date.parse(p.at) })));
    this.#hot.seed(h.sparks);
    this.#feed.reset(h.changes);
    this.state(h.state, writable);
  }

  change(c) { this.#feed.add(c); }

  // state takes the present state, which is only kept while the page is paused.
  state(s, writable) {
    const t = s.totals;
    if (this.#latest && t.allowed_per_second != null) {
      this.#chart.add({
        at: Date.parse(s.at), allowed: t.allowed_per_second, served: t.served_per_second, denied: t.denied_per_second,
        would: t.would_deny_per_second,
      });
    }
    if (this.#latest) this.#hot.tick(s.hot);
    this.#latest = s;
    this.#writable = writable;
    if (!this.#paused) this.#draw();
  }

  #pause(yes) {
    this.#paused = yes;
    $("pause").setAttribute("aria-pressed", String(yes));
    setText($("pause-note"), yes ? `as of ${clock(this.#latest?.at ?? Date.now())}` : "");
    this.#chart.pause(yes);
    if (!yes && this.#latest) this.#draw();
  }

  #draw() {
    const s = this.#latest, t = s.totals;
    setText($("requests"), rate(t.requests_per_second));
    setText($("allowed"), rate(t.allowed_per_second));
    setText($("denied"), rate(t.denied_per_second));
    setText($("hot-count"), rate(t.hot_keys));
    setText($("requests-note"), requestsNote(t));
    const unknown = t.requests_per_second == null;
    for (const unit of document.querySelectorAll("#view-now .numbers small")) unit.hidden = unknown;
    setText($("allowed-note"), allowedNote(t));
    for (const name of ["served", "would"]) document.querySelector(`#strip-${name}`).hidden = !this.#chart.has(name);
    $("would-tile").hidden = !(t.would_deny_per_second > 0);
    setText($("would"), rate(t.would_deny_per_second));
    setText($("would-note"), share(t.would_deny_per_second, t.requests_per_second));
    setText($("denied-note"), deniedBy(t));
    setText($("hot-note"), hotNote(t));
    named($("events"), s.hot);
    this.#hot.show(s, this.#writable);
    for (const [part, show] of Object.entries(this.#lists)) {
      document.querySelector(`.jumps [href="#${part}"]`).hidden = !show(s, this.#writable);
    }
    this.#closest(s.closest);
  }
}

const allowedNote = ({ allowed_per_second: n, served_per_second: served, requests_per_second: all }) =>
  [share(n, all), served > 0 && `${rate(served)}/s from the cache`].filter(Boolean).join(" · ");

const share = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part === all ? 0 : 1)} % of requests` : "");

function requestsNote(t) {
  if (t.requests_per_second == null) return "no limiter has reported yet";
  return t.limiters === 1 ? "by 1 limiter" : `by ${t.limiters} limiters`;
}

function hotNote(t) {
  const some = t.hot_keys === 1 ? "1 value over its threshold" : "values over their threshold";
  const hot = t.hot_keys === 0 ? "no hot keys" : some;
  return [hot, t.loops && (t.loops === 1 ? "1 loop" : `${t.loops} loops`)].filter(Boolean).join(" · ");
}

function deniedBy(t) {
  const parts = Object.entries(t.denied_by ?? {}).filter(([, n]) => n >= 0.05).sort((a, b) => b[1] - a[1]);
  if (parts.length === 0) return t.requests_per_second == null ? "" : "no denials";
  return parts.slice(0, 3).map(([name, n]) => `${rate(n)} ${reasons[name] ?? name}`).join(" · ");
}
