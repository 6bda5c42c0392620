// Overrides: the overrides that people have set, and how they are undone, removed, prolonged, exported and imported.

import {
  cell, count, el, lasting, overrideText, plainKey, rate, scheduleText, setText, targetNode, targetOf,
} from "./text.js";
import { getJSON, me, putOverride } from "./api.js";

const longer = 3600_000; // milliseconds that "1 h longer" adds
const every = 2000; // milliseconds between two polls of hits while the view is open

export class OverridesView {
  #body; #table; #empty; #overrides = []; #rows = new Map(); #act; #say; #writable = false; #timer = 0;

  // The buttons call act(kind, override); kind is enforce, edit, extend, remove or undo. say(parts) shows a message to
  // the person.
  constructor(section, act, say) {
    this.#table = section.querySelector("table");
    this.#body = this.#table.tBodies[0];
    this.#empty = section.querySelector("#overrides-empty");
    this.#act = act;
    this.#say = say;
    section.querySelector("#import").addEventListener("change", (e) => this.#import(e.target));
    setInterval(() => this.#count(), 1000);
  }

  get list() { return this.#overrides; }

  // open and close belong to the view: hits are polled while it is shown.
  open() {
    this.close();
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  close() {
    clearInterval(this.#timer);
    this.#timer = 0;
  }

  async #ask() {
    try {
      const { overrides } = await getJSON("/v1/overrides");
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

  show(overrides, writable) {
    this.#overrides = overrides;
    this.#writable = writable;
    this.#table.hidden = overrides.length === 0;
    this.#empty.hidden = overrides.length > 0;
    this.#empty.textContent = writable
      ? "No override holds. Limit, block or exempt a hot key, or set one for any key before it is hot."
      : "No override holds. Operators set them here if this process keeps any, else in the rules file.";
    const focused = this.#focused();
    // Rows of unchanged overrides stay, so that a click reaches the row that the person saw.
    const rows = new Map();
    for (const o of overrides) {
      const state = JSON.stringify([o, writable]);
      rows.set(state, this.#rows.get(state) ?? this.#row(o));
    }
    this.#rows = rows;
    this.#body.replaceChildren(...rows.values());
    this.#count();
    if (this.#timer) this.#ask();
    const row = focused && this.#body.querySelector(`[data-id="${CSS.escape(focused.id)}"]`);
    (row?.querySelector(`[data-act="${focused.act}"]`) ?? row?.querySelector("button"))?.focus();
  }

  // focused remembers the button in use, because changed rows are made again.
  #focused() {
    const button = document.activeElement;
    if (!this.#body.contains(button)) return null;
    return { id: button.closest("[data-id]")?.dataset.id ?? "", act: button.dataset.act };
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
      cell("Holds", "", el("span", { class: "until" }), el("small", { class: "note" }, scheduleText(o.schedule))),
      cell("Hits", "num", el("span", { class: "hits" }, "–"), el("small", { class: "note pace" }),
        el("small", { class: "note would" }), el("small", { class: "doubt" })),
      cell("", "actcell", mine ? el("div", { class: "acts" }, ...acts)
        : el("span", { class: "note" }, o.source === "file" ? "rules file" : "")));
  }

  #count() {
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
      return this.#say(["The file holds no overrides: an export of this page does."]);
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
    return this.#say([`Set ${set} of ${list.length} overrides.`, refused]);
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
  { ...fields(o), until: new Date(Math.max(Date.now(), Date.parse(o.until)) + longer).toISOString() });

// wouldText writes the number of hits that an override in shadow mode would have denied.
export function wouldText(o) {
  if (o.would_deny == null) return "";
  const pace = o.would_deny_per_second > 0 ? `, ${rate(o.would_deny_per_second)}/s now` : "";
  return `would have denied ${count(o.would_deny)}${pace}`;
}

function holds(o) {
  const left = Date.parse(o.until) - Date.now();
  const turn = o.schedule && o.next ? lasting(Math.max(0, Date.parse(o.next) - Date.now())) : "";
  if (turn) return o.active ? `active now, ${turn} left` : `next in ${turn}`;
  return !o.until ? "until removed" : left > 0 ? `${lasting(left)} left` : "ended";
}
