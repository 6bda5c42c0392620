// Hot: the table of hot keys, in pages of fifty, or of ten on a phone. The first page comes with the stream; another
// page, order or search is polled each second. Rows live as long as they are shown, and hold still while a person is in
// the table.

import { getJSON, inside } from "./api.js";
import { drawSpark, spark } from "./chart.js";
import { fillClients, fillRows } from "./lists.js";
import { HeldList, steady } from "./still.js";
import {
  cell, cellRate, count, countOf, el, keyLink, lasting, limitText, overrideText, percent, plainKey, rate, readableNode,
  setText, speak, times,
} from "./text.js";

const slots = 60;
// On a phone a row is a card; ten cards leave the rest of the page in reach.
const pageSize = matchMedia("(max-width: 560px)").matches ? 10 : 50;

export class HotTable {
  #section; #table; #body; #empty; #held; #rows = new Map(); #sparks = new Map();
  #asking = false; #again = false; #renew = false; #act; #remember; #latest = null; #writable = false;
  #sort = "rate"; #find = ""; #page = 0; #last = 0; #now = 0; #all = false;

  // The buttons of a row call act(kind, hotKey); kind is limit, block, exempt or clear. remember({find, sort, page})
  // keeps the choice in the address.
  constructor(section, act, remember) {
    this.#section = section;
    this.#table = section.querySelector("table");
    this.#body = this.#table.tBodies[0];
    this.#empty = section.querySelector("#hot-empty");
    this.#act = act;
    this.#remember = remember;
    this.#held = new HeldList(this.#body, section.querySelector("#hot-more-keys"), (h) => h.href,
      (keys, gone) => this.#draw(keys, gone));
    for (const button of this.#table.querySelectorAll("thead button")) {
      button.addEventListener("click", () => this.#turn({ sort: button.dataset.sort, page: 0 }));
    }
    const on = (id, event, act) => section.querySelector(id).addEventListener(event, act);
    on("#hot-find", "input", (e) => this.#turn({ find: e.target.value.trim(), page: 0 }));
    on("#hot-sort", "change", (e) => this.#turn({ sort: e.target.value, page: 0 }));
    const pages = { first: () => 0, before: () => this.#page - 1, after: () => this.#page + 1, last: () => this.#last };
    for (const [name, page] of Object.entries(pages)) on(`#hot-${name}`, "click", () => this.#turn({ page: page() }));
  }

  seed(sparks) { this.#sparks = new Map(Object.entries(sparks)); }

  // tick appends one second to the lines of the hot keys.
  tick(hot) {
    const next = new Map();
    for (const h of hot) next.set(h.key, [...(this.#sparks.get(h.key) ?? []), h.rate].slice(-slots));
    this.#sparks = next;
  }

  show(state, writable) {
    this.#latest = state;
    this.#writable = writable;
    if (this.#sort === "rate" && !this.#find && this.#page === 0) {
      return this.#fill(state.hot.slice(0, pageSize), state.totals.hot_keys, state.at);
    }
    return this.#ask();
  }

  // restore sets search, order and page by the query of an address.
  restore(query) {
    const order = this.#section.querySelector("#hot-sort"), sort = query.get("sort") ?? "rate";
    const known = [...order.options].some((o) => o.value === sort);
    const find = query.get("find") ?? "";
    this.#section.querySelector("#hot-find").value = find;
    this.#set({ sort: known ? sort : "rate", find, page: pageOf(query) });
  }

  // turn shows another page, order or search.
  #turn({ sort = this.#sort, find = this.#find, page }) {
    this.#remember({ sort: sort === "rate" ? "" : sort, find, page: page > 0 ? page + 1 : "" });
    this.#renew = true;
    this.#set({ sort, find, page });
  }

  #set({ sort, find, page }) {
    [this.#sort, this.#find, this.#page] = [sort, find, page];
    this.#section.querySelector("#hot-sort").value = sort;
    for (const sorted of this.#table.querySelectorAll("[aria-sort]")) sorted.removeAttribute("aria-sort");
    const button = this.#table.querySelector(`thead [data-sort=${sort}]`);
    button?.closest("th").setAttribute("aria-sort", sort === "key" || sort === "since" ? "ascending" : "descending");
    for (const other of this.#table.querySelectorAll("thead [aria-pressed]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    this.#again = this.#asking;
    if (this.#latest) this.show(this.#latest, this.#writable);
  }

  // ask fetches the page that is shown, with one request at a time.
  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    try {
      const query = new URLSearchParams({
        limit: pageSize, offset: this.#page * pageSize, sort: this.#sort, find: this.#find,
      });
      const { keys, matched, at } = await getJSON(`/v1/hot?${query}`);
      if (!this.#again) this.#fill(keys, matched, at);
    } catch (problem) {
      setText(this.#section.querySelector("#hot-more"), problem.message);
    } finally {
      this.#asking = false;
      if (this.#again) {
        this.#again = false;
        this.show(this.#latest, this.#writable);
      }
    }
  }

  #fill(keys, matched, at) {
    this.#last = Math.max(0, Math.ceil(matched / pageSize) - 1);
    if (keys.length === 0 && this.#page > 0 && matched > 0) return this.#turn({ page: this.#last });
    // The column would be empty without a response cache.
    if (keys.some((h) => h.served_per_second > 0)) this.#table.classList.add("with-served");
    if (keys.some((h) => h.would_deny_per_second > 0 || h.tried)) this.#table.classList.add("with-would");
    this.#tell(keys.length, matched);
    if (this.#renew) speak(this.#section.querySelector("#hot-more").textContent || countOf(matched, "hot key"));
    [this.#now, this.#all] = [Date.parse(at), keys.length === matched && this.#find === ""];
    steady(() => this.#held.show(keys, this.#renew));
    this.#renew = false;
    return undefined;
  }

  #draw(keys, gone) {
    this.#table.hidden = keys.length === 0;
    this.#empty.hidden = keys.length > 0 || this.#find !== "";
    fillRows(this.#body, this.#rows, keys, gone, (h) => h.href, (h) => newRow(h, this.#act, (current, isGone) => ({
      now: this.#now, rates: current.spark ?? this.#sparks.get(current.key) ?? [], writable: this.#writable,
      left: isGone ? this.#goneText(current) : "",
    })));
  }

  // goneText returns why a key left the list, as far as that is known.
  #goneText(h) {
    const { hot, totals } = this.#latest, isHot = hot.some((other) => other.href === h.href);
    const knowsAll = this.#all || hot.length === totals.hot_keys;
    return knowsAll && !isHot ? "cooled" : "not on this page now";
  }

  #tell(shown, matched) {
    const first = this.#page * pageSize;
    const many = matched > pageSize || this.#page > 0;
    const part = many ? `${count(first + 1)} to ${count(first + shown)} of ${count(matched)}` : "";
    setText(this.#section.querySelector("#hot-more"), this.#find && matched === 0 ? "no hot key matches" : part);
    this.#section.querySelector("#hot-pages").hidden = !many;
    const begin = this.#page === 0, end = this.#page >= this.#last;
    for (const [name, off] of Object.entries({ first: begin, before: begin, after: end, last: end })) {
      this.#section.querySelector(`#hot-${name}`).disabled = off;
    }
  }
}

// newRow makes the row of a hot key. about(key, gone) returns the other values that the row shows.
function newRow(first, act, about) {
  let current = first;
  const note = () => el("small", { class: "note" });
  const text = {
    rule: note(), times: note(), bounds: note(), client: note(), source: note(), past: note(),
    rate: el("span"), share: el("span"), clients: el("span"), since: el("span"), limit: el("span"),
    allowed: el("span"), denied: el("span"), served: el("span"),
    would: el("span"), whole: el("p"),
  };
  const details = el("details", {}, el("summary", {}, "details"), text.whole);
  const atRule = el("a", { href: inside("/rules") }); // where a limit of the rule is enforced
  const line = spark();
  const button = (kind, name) => el("button", {
    type: "button", class: "small", "data-act": kind, "aria-label": `${name} ${plainKey(first.key)}`,
    onclick: () => act(kind, { ...current, row: "hot" }),
  }, name);
  const buttons = {
    limit: button("limit", "Limit"), block: button("block", "Block"), exempt: button("exempt", "Exempt"),
    enforce: button("enforce", "Enforce"), clear: button("clear", "Clear"),
  };
  const acts = el("div", { class: "acts" }, ...Object.values(buttons));
  const node = el("tr", {},
    el("th", { scope: "row", class: "keycell" }, keyLink(first), readableNode(first.key), text.rule),
    cell("Rate", "num rate", line, text.rate, text.times, text.past, text.bounds),
    cell("Share", "num minor part", text.share),
    cell("Clients", "num who minor", text.clients, text.client),
    cell("Hot for", "num minor", text.since),
    cell("Limit", "limit", text.limit, text.source, atRule, details),
    cell("Allowed/s", "num ok minor", text.allowed),
    cell("Denied/s", "num bad", text.denied),
    cell("Would deny/s", "num tries", text.would),
    cell("Served/s", "num ok served minor", text.served),
    cell("", "actcell", acts));
  const fill = (h, gone) => {
    const { now, rates, writable, left } = about(h, gone);
    current = h;
    const why = h.why && h.why !== "rate" && `by ${plainKey(h.why)}`;
    setText(text.rule, [left, `rule ${plainKey(h.rule)}`, why].filter(Boolean).join(" · "));
    setText(text.rate, cellRate(h.rate, h.cost));
    setText(text.times, times(h.rate, h.threshold, "threshold"));
    setText(text.past, times(h.rate, h.baseline, "its baseline"));
    const bounds = [h.lower, h.upper].map((bound) => cellRate(bound, h.cost)).join(" to ");
    setText(text.bounds, h.upper > h.lower * 1.005 ? bounds : "");
    setText(text.share, h.share > 0 ? percent(h.share) : "–");
    fillClients(text, h);
    drawSpark(line, rates, slots, h.cost ? {} : { limit: perSecond(h.limit), least: 1 });
    setText(text.since, lasting(now - Date.parse(h.since)));
    details.hidden = !h.limit?.adaptive;
    setText(text.whole, h.limit?.adaptive ? h.limit.text : "");
    setText(text.limit, h.limit ? limitText(h.limit) : h.override?.action === "exempt" ? "exempt" : "detected only");
    fillSource(text.source, h);
    atRule.hidden = h.limit?.mode !== "shadow" || h.tried != null;
    setText(atRule, enforceText({ tried: {
      hits_per_second: h.allowed_per_second + h.denied_per_second, would_deny_per_second: h.would_deny_per_second,
    } }));
    setText(text.allowed, rate(h.allowed_per_second));
    setText(text.denied, rate(h.denied_per_second));
    setText(text.served, rate(h.served_per_second));
    setText(text.would, rate(h.would_deny_per_second));
    node.classList.toggle("would-deny", h.would_deny_per_second > 0);
    buttons.enforce.hidden = h.tried?.source !== "live";
    setText(buttons.enforce, enforceText(h));
    buttons.enforce.setAttribute("aria-label", `${enforceText(h)} ${plainKey(h.key)}`);
    node.classList.toggle("denying", h.denied_per_second > 0);
    acts.hidden = !writable;
    buttons.clear.hidden = h.override?.source !== "live";
  };
  return { node, fill };
}

// enforceText names the button that enforces the override which is tried on a key, with the part of the override's
// requests that would be denied.
export function enforceText({ tried: t }) {
  return t?.hits_per_second > 0 ? `Enforce: denies ${Math.round((100 * t.would_deny_per_second) / t.hits_per_second)} %`
    : "Enforce";
}

// pageOf returns the index of the page of a list that the query of an address names.
export const pageOf = (query) => Math.max(0, Math.trunc(Number(query.get("page")) || 1) - 1);

// perSecond returns a limit as a rate, or undefined if there is no limit with a rate.
export const perSecond = (l) => (l?.limit > 0 && l.window_ms > 0 ? l.limit / (l.window_ms / 1000) : undefined);

const sources = { values: "by the rule's value list", rule: "by the rule" };

function fillSource(node, h) {
  node.classList.toggle("badge", h.override != null);
  const by = h.override?.author ? ` by ${plainKey(h.override.author)}` : "";
  setText(node, h.override ? `override${by}` : sources[h.limit_source] ?? "");
  node.title = h.override ? overrideText(h.override) + (h.override.reason ? `: ${h.override.reason}` : "") : "";
}
