// Feed: what happened lately, newest first, and the list of overrides.

import { clientsText, clock, el, keyNode, lasting, overrideText, plainKey, rate, scheduleText } from "./text.js";

const most = 60;

export class Feed {
  #list; #empty; #last = 0;

  constructor(list, empty) {
    this.#list = list;
    this.#empty = empty;
  }

  // reset fills the list with what a new stream told.
  reset(changes) {
    this.#list.replaceChildren();
    this.#last = 0;
    // Old news is not read out.
    this.#list.setAttribute("aria-live", "off");
    for (const c of changes) this.add(c);
    requestAnimationFrame(() => this.#list.setAttribute("aria-live", "polite"));
  }

  add(change) {
    if (change.seq <= this.#last) return; // was in the hello too
    this.#last = change.seq;
    this.#list.prepend(item(change));
    while (this.#list.children.length > most) this.#list.lastChild.remove();
    this.#empty.hidden = true;
  }
}

const words = {
  became_hot: "Became hot", cooled: "Cooled", became_loop: "A loop, not limited", ceased_loop: "Loop ended", override_put: "Override set",
  override_deleted: "Override removed", override_undone: "Override undone",
  override_began: "Override began by its schedule", override_ended: "Override ended by its schedule",
};

function item(c) {
  const about = [];
  if (c.kind === "became_hot" || c.kind === "became_loop") about.push(`${rate(c.rate)}/s`, c.rule && `rule ${c.rule}`, clientsText(c));
  if ((c.kind === "override_put" || c.kind === "override_began") && c.override) about.push(overrideText(c.override), c.override.reason);
  if (c.author) about.push(`by ${c.author}`);
  return el("li", { class: c.kind },
    el("time", { datetime: c.at }, clock(c.at)),
    el("div", {},
      el("p", {}, el("strong", {}, words[c.kind] ?? c.kind), " ", el("span", { class: "note" }, about.filter(Boolean).join(" · "))),
      el("p", {}, keyNode(c.key))));
}

export class OverrideList {
  #list; #empty; #overrides = []; #act; #writable = false;

  // act(kind, override) is called by the buttons; kind is edit, remove or undo.
  constructor(list, empty, act) {
    this.#list = list;
    this.#empty = empty;
    this.#act = act;
    setInterval(() => this.#count(), 1000);
  }

  show(overrides, writable) {
    this.#overrides = overrides;
    this.#writable = writable;
    this.#empty.hidden = overrides.length > 0;
    this.#empty.textContent = writable
      ? "No override holds. Limit, block or exempt a hot key above, or set one for any key before it is hot."
      : "No override holds. This process keeps none: write them in the rules file.";
    const focused = this.#focused();
    this.#list.replaceChildren(...overrides.map((o) => this.#item(o)));
    this.#count();
    if (focused) this.#list.querySelector(`[data-id="${CSS.escape(focused.id)}"] [data-act="${focused.act}"]`)?.focus();
  }

  // focused remembers the button in use: the list is made anew on each change.
  #focused() {
    const button = document.activeElement;
    if (!this.#list.contains(button)) return null;
    return { id: button.closest("[data-id]")?.dataset.id ?? "", act: button.dataset.act };
  }

  #item(o) {
    const button = (act, name) => el("button", {
      type: "button", class: "small", "data-act": act, "aria-label": `${name} the override of ${plainKey(o.key)}`,
      onclick: () => this.#act(act, o),
    }, name);
    const about = [scheduleText(o.schedule), o.reason, o.author && `by ${o.author}`].filter(Boolean).join(" · ");
    return el("li", { "data-id": o.id, class: `do-${o.action}${o.active === false ? " waits" : ""}` },
      el("div", {},
        el("p", {}, keyNode(o.key), " ", el("span", { class: "badge" }, overrideText(o))),
        el("p", { class: "note" }, el("span", { class: "until" }), about ? ` · ${about}` : "")),
      o.source === "live" && this.#writable
        ? el("div", { class: "acts" }, button("edit", "Edit"), button("undo", "Undo"), button("remove", "Remove"))
        : el("span", { class: "note" }, "rules file"));
  }

  // count writes how long each still holds.
  #count() {
    const items = this.#list.querySelectorAll(".until");
    this.#overrides.forEach((o, i) => {
      const left = Date.parse(o.until) - Date.now();
      const turn = o.schedule && o.next ? lasting(Math.max(0, Date.parse(o.next) - Date.now())) : "";
      const text = turn ? (o.active ? `active now, ${turn} left` : `next in ${turn}`) : !o.until ? "until removed" : left > 0 ? `${lasting(left)} left` : "ended";
      if (items[i] && items[i].textContent !== text) items[i].textContent = text;
    });
  }
}
