// Overrides: the overrides that people have set, and how they are undone, removed, prolonged, exported and imported.
// The table has pages of fifty. The first page comes with the stream; another page or a search is polled.

import {
  cell, count, countOf, el, lasting, overrideText, plainKey, rate, scheduleText, setText, speak, targetNode, targetOf,
} from "./text.js";
import { getJSON, me, putOverride, serverNow } from "./api.js";
import { pageOf } from "./hot.js";
import { keepingFocus } from "./still.js";

const longer = 3600_000; // milliseconds that "1 h longer" adds
const every = 2000; // milliseconds between two polls of hits and of another page while the view is open
const pageSize = 50;

export class OverridesView {
  #section; #body; #table; #empty; #rows = new Map(); #act; #say; #remember; #writable = false; #timer = 0;
  #first = []; #total = 0; #overrides = []; #find = ""; #page = 0; #last = 0; #asked = 0;

  // The buttons call act(kind, override); kind is enforce, edit, extend, remove or undo. say(parts) shows a message to
  // the person, and remember({find, page}) keeps search and page in the address.
  constructor(section, act, { say, remember }) {
    this.#section = section;
    this.#table = section.querySelector("table");
    this.#body = this.#table.tBodies[0];
    this.#empty = section.querySelector("#overrides-empty");
    this.#act = act;
    [this.#say, this.#remember] = [say, remember];
    section.querySelector("#import").addEventListener("change", (e) => this.#import(e.target));
    const on = (id, event, turn) => section.querySelector(id).addEventListener(event, turn);
    on("#overrides-find", "input", (e) => this.#turn(e.target.value.trim(), 0));
    const pages = { first: () => 0, before: () => this.#page - 1, after: () => this.#page + 1, last: () => this.#last };
    for (const [name, page] of Object.entries(pages)) {
      on(`#overrides-${name}`, "click", () => this.#turn(this.#find, page()));
    }
    setInterval(() => this.#countDown(), 1000);
  }

  // list has the first overrides of the stream, and total is the number of all.
  get list() { return this.#first; }

  get total() { return this.#total; }

  // versionOf returns the version of the override of exactly a key that is in force from now on, or 0 if there is none.
  async versionOf(key) {
    const mine = (o) => o.source === "live" && o.key === key && !o.schedule && o.mode !== "shadow";
    let list = this.#first;
    if (list.length < this.#total) {
      list = (await getJSON(`/v1/overrides?${new URLSearchParams({ find: key })}`)).overrides;
    }
    return list.find(mine)?.version ?? 0;
  }

  // open and close belong to the view: hits are polled while it is shown. Page and search are in the address.
  open() {
    this.close();
    const query = new URLSearchParams(location.search);
    [this.#find, this.#page] = [query.get("find") ?? "", pageOf(query)];
    this.#section.querySelector("#overrides-find").value = this.#find;
    if (this.#isFirst) this.#fill(this.#first.slice(0, pageSize), this.#total);
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  close() {
    clearInterval(this.#timer);
    this.#timer = 0;
  }

  get #isFirst() { return this.#page === 0 && !this.#find; }

  // turn shows another page or search.
  #turn(find, page) {
    [this.#find, this.#page] = [find, page];
    this.#remember({ find, page: page > 0 ? page + 1 : "" });
    if (this.#isFirst) this.#fill(this.#first.slice(0, pageSize), this.#total);
    this.#ask(true);
  }

  // ask fetches the page that is shown; turned is true if a person has just chosen it. An answer to an earlier question
  // is dropped.
  async #ask(turned = false) {
    const asked = ++this.#asked;
    try {
      const query = new URLSearchParams({ limit: pageSize, offset: this.#page * pageSize, find: this.#find });
      const { overrides, matched } = await getJSON(`/v1/overrides?${query}`);
      if (asked !== this.#asked) return;
      if (!this.#isFirst) this.#fill(overrides.map(withoutHits), matched);
      if (turned) speak(this.#find ? `${countOf(matched, "override")} found` : `page ${this.#page + 1}`);
      for (const o of overrides) {
        const row = this.#body.querySelector(`[data-id="${CSS.escape(o.id)}"]`);
        if (!row) continue;
        setText(row.querySelector(".hits"), o.hits == null ? "–" : count(o.hits));
        setText(row.querySelector(".pace"), o.hits_per_second > 0 ? `${rate(o.hits_per_second)}/s` : "");
        setText(row.querySelector(".would"), wouldText(o));
        setText(row.querySelector(".doubt"), (o.warnings ?? []).map(plainKey).join("; "));
      }
    } catch { /* the banner tells that the server is gone */ }
  }

  // show takes the first overrides of the list, of total in all.
  show(first, total, writable) {
    this.#first = first;
    this.#writable = writable;
    this.setTotal(total);
    if (this.#isFirst) this.#fill(first.slice(0, pageSize), this.#total);
    if (this.#timer) this.#ask();
  }

  // setTotal takes the number of all overrides, which comes with each state.
  setTotal(total) {
    this.#total = Math.max(total, this.#first.length);
    if (this.#isFirst) this.#tell(this.#overrides.length, this.#total);
  }

  #tell(shown, matched) {
    this.#last = Math.max(0, Math.ceil(matched / pageSize) - 1);
    const begin = this.#page * pageSize, many = matched > pageSize || this.#page > 0;
    const part = many ? `${count(begin + 1)} to ${count(begin + shown)} of ${count(matched)}` : "";
    const element = (name) => this.#section.querySelector(`#overrides-${name}`);
    setText(element("more"), this.#find && matched === 0 ? "no override matches" : part);
    element("tools").hidden = this.#total <= pageSize && !this.#find;
    element("pages").hidden = !many;
    const atBegin = this.#page === 0, atEnd = this.#page >= this.#last;
    for (const [name, off] of Object.entries({ first: atBegin, before: atBegin, after: atEnd, last: atEnd })) {
      element(name).disabled = off;
    }
  }

  #fill(overrides, matched) {
    this.#overrides = overrides;
    this.#tell(overrides.length, matched);
    if (overrides.length === 0 && this.#page > 0) { // the last ones of the page are gone
      this.#turn(this.#find, this.#last);
      return;
    }
    const writable = this.#writable;
    this.#table.hidden = overrides.length === 0;
    this.#empty.hidden = overrides.length > 0 || this.#find !== "";
    this.#empty.textContent = writable
      ? "No override applies. Limit, block or exempt a hot key, or set an override before a key is hot."
      : "No override applies. Operators set overrides here if this process stores them, or else in the rules file.";
    // Rows of unchanged overrides stay, so that a click reaches the row that the person saw.
    const rows = new Map();
    for (const o of overrides) {
      const state = JSON.stringify([o, writable]);
      rows.set(state, this.#rows.get(state) ?? this.#row(o));
    }
    this.#rows = rows;
    keepingFocus(this.#body, () => this.#body.replaceChildren(...rows.values()));
    this.#countDown();
  }

  #row(o) {
    const button = (act, name) => el("button", {
      type: "button", class: "small", "data-act": act,
      "aria-label": `${name}: the override of ${targetNode(o).textContent}`, onclick: () => this.#act(act, o),
    }, name);
    const mine = o.source === "live" && this.#writable;
    const acts = [
      o.mode === "shadow" && button("enforce", "Enforce"), button("edit", "Edit"),
      o.until && button("extend", "1 h longer"), button("undo", "Undo"), button("remove", "Remove"),
    ].filter(Boolean);
    return el("tr", { "data-id": o.id, class: `do-${o.mode ?? o.action}${o.active === false ? " waits" : ""}` },
      el("th", { scope: "row", class: "keycell" }, targetNode(o)),
      cell("Effect", "", el("span", { class: "badge" }, overrideText(o))),
      cell("Reason", "words", plainKey(o.reason || "–"),
        el("small", { class: "note" }, o.author ? `by ${plainKey(o.author)}` : "")),
      cell("Holds", "", el("span", { class: "until" }),
        el("small", { class: "note schedule" }, scheduleText(o.schedule))),
      cell("Hits", "num", el("span", { class: "hits" }, "–"), el("small", { class: "note pace" }),
        el("small", { class: "note would" }), el("small", { class: "doubt" })),
      cell("", "actcell", mine ? el("div", { class: "acts" }, ...acts)
        : el("span", { class: "note" }, o.source === "file" ? "rules file" : "")));
  }

  #countDown() {
    const items = this.#body.querySelectorAll(".until");
    this.#overrides.forEach((o, i) => {
      const text = holds(o);
      if (items[i] && items[i].textContent !== text) items[i].textContent = text;
    });
  }

  // import sets every override of an exported file. A wrong override does not stop the others.
  async #import(input) {
    const [file] = input.files;
    input.value = ""; // so that the same file may be chosen again
    if (!file) return;
    let list;
    try {
      const read = JSON.parse(await file.text());
      list = (Array.isArray(read) ? read : read.overrides).filter((o) => o.source !== "file");
    } catch {
      return this.#say(["The file holds no overrides. Choose an export of this page."]);
    }
    let set = 0;
    const wrong = [];
    for (const o of list) {
      try {
        await putOverride(fields(o));
        set++;
      } catch (problem) {
        wrong.push(`${plainKey(String(targetOf(o).value))}: ${problem.message}`);
      }
    }
    const refused = wrong.length ? ` Refused: ${wrong.slice(0, 3).join("; ")}` : "";
    return this.#say([`Set ${set} of ${countOf(list.length, "override")}.`, refused]);
  }
}

const sent = ["key", "resource", "client", "cidr", "class", "action", "rate", "burst", "mode", "until", "schedule"]
  .concat("reason");

// fields returns the fields of a server's override that may be sent back. The author is the person who sends it.
export function fields(o) {
  const out = {}, author = me.get();
  for (const name of sent) if (o[name]) out[name] = o[name];
  return author ? { ...out, author } : out;
}

// extended returns an override that ends an hour later, or in an hour if it has ended.
export const extended = (o) => (
  { ...fields(o), until: new Date(Math.max(serverNow(), Date.parse(o.until)) + longer).toISOString() });

// withoutHits returns an override as the stream has it, so that its row stays while only its hits grow.
function withoutHits(o) {
  const { hits, hits_per_second, would_deny, would_deny_per_second, ...rest } = o;
  return rest;
}

// wouldText writes the number of hits that an override in shadow mode would have denied.
export function wouldText(o) {
  if (o.would_deny == null) return "";
  const pace = o.would_deny_per_second > 0 ? `, ${rate(o.would_deny_per_second)}/s now` : "";
  return `would have denied ${count(o.would_deny)}${pace}`;
}

function holds(o) {
  const now = serverNow(), left = Date.parse(o.until) - now;
  const turn = o.schedule && o.next ? lasting(Math.max(0, Date.parse(o.next) - now)) : "";
  if (turn) return o.active ? `active now, ${turn} left` : `next in ${turn}`;
  return !o.until ? "until removed" : left > 0 ? `${lasting(left)} left` : "ended";
}
