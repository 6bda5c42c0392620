// Hot: the table of hot keys. Rows live as long as their key is hot, so that
// focus and pointer stay where they are; the order rests while somebody is in
// the table.

import { clientsText, el, keyNode, lasting, overrideText, percent, plainKey, rate, setText } from "./text.js";
import { drawSpark, spark } from "./chart.js";

const slots = 60;

export class HotTable {
  #table; #body; #empty; #more; #rows = new Map(); #sparks = new Map(); #busy = false; #act;

  // act(kind, hotKey) is called by the buttons of a row; kind is limit, block,
  // exempt or clear.
  constructor(section, act) {
    this.#table = section.querySelector("table");
    this.#body = this.#table.tBodies[0];
    this.#empty = section.querySelector(".empty");
    this.#more = section.querySelector(".head .note");
    this.#act = act;
    this.#body.addEventListener("pointerenter", () => { this.#busy = true; });
    this.#body.addEventListener("pointerleave", () => { this.#busy = false; });
  }

  seed(sparks) { this.#sparks = new Map(Object.entries(sparks)); }

  // tick appends one second to the lines of the keys that are hot.
  tick(hot) {
    const next = new Map();
    for (const h of hot) next.set(h.key, [...(this.#sparks.get(h.key) ?? []), h.rate].slice(-slots));
    this.#sparks = next;
  }

  show({ at, hot, totals }, writable) {
    this.#table.hidden = hot.length === 0;
    this.#empty.hidden = hot.length > 0;
    setText(this.#more, totals.hot_keys > hot.length ? `the ${hot.length} hottest of ${totals.hot_keys}` : "");
    const here = new Set(hot.map((h) => h.href));
    for (const [id, row] of this.#rows) {
      if (here.has(id)) continue;
      row.node.remove();
      this.#rows.delete(id);
    }
    const now = Date.parse(at);
    for (const h of hot) {
      let row = this.#rows.get(h.href);
      if (!row) {
        row = this.#newRow(h);
        this.#rows.set(h.href, row);
        this.#body.append(row.node);
      }
      row.fill(h, now, this.#sparks.get(h.key) ?? [], writable);
    }
    if (!this.#busy && !this.#body.contains(document.activeElement)) this.#sort(hot);
  }

  #sort(hot) {
    hot.forEach((h, i) => {
      const { node } = this.#rows.get(h.href);
      if (this.#body.rows[i] !== node) this.#body.insertBefore(node, this.#body.rows[i]);
    });
  }

  #newRow(first) {
    let current = first;
    const cell = (label, classes, ...children) => el("td", { "data-label": label, class: classes }, ...children);
    const text = { rule: el("span"), why: el("small", { class: "note" }), bounds: el("small", { class: "note" }), clients: el("span"), client: el("small", { class: "note" }), rate: el("span"), since: el("span"), limit: el("span"), allowed: el("span"), denied: el("span"), badge: el("span", { class: "badge" }) };
    const line = spark();
    const button = (kind, name) => el("button", {
      type: "button", class: "small", "data-act": kind, "aria-label": `${name} ${plainKey(first.key)}`,
      onclick: () => this.#act(kind, current),
    }, name);
    const buttons = { limit: button("limit", "Limit"), block: button("block", "Block"), exempt: button("exempt", "Exempt"), clear: button("clear", "Clear") };
    const acts = el("div", { class: "acts" }, ...Object.values(buttons));
    const node = el("tr", {},
      el("th", { scope: "row", class: "keycell" }, el("a", { href: first.href, title: "all that is known about this key (JSON)" }, keyNode(first.key))),
      cell("Rule", "", text.rule, text.why),
      cell("Rate", "num rate", line, text.rate, text.bounds),
      cell("Clients", "num who", text.clients, text.client),
      cell("Hot for", "num", text.since),
      cell("Limit", "limit", el("div", {}, text.limit, text.badge)),
      cell("Allowed/s", "num ok", text.allowed),
      cell("Denied/s", "num bad", text.denied),
      cell("", "actcell", acts));
    const fill = (h, now, rates, writable) => {
      current = h;
      setText(text.rule, h.rule);
      setText(text.why, h.why && h.why !== "rate" ? h.why : "");
      setText(text.rate, rate(h.rate));
      setText(text.bounds, h.upper > h.lower * 1.005 ? `${rate(h.lower)} to ${rate(h.upper)}` : "");
      fillClients(text, h);
      drawSpark(line, rates, slots);
      setText(text.since, lasting(now - Date.parse(h.since)));
      setText(text.limit, h.limit ? h.limit.text : h.override?.action === "exempt" ? "exempt" : "detected only");
      text.badge.hidden = !h.override;
      if (h.override) {
        setText(text.badge, "override");
        text.badge.title = overrideText(h.override) + (h.override.reason ? `: ${h.override.reason}` : "");
      }
      setText(text.allowed, rate(h.allowed_per_second));
      setText(text.denied, rate(h.denied_per_second));
      node.classList.toggle("denying", h.denied_per_second > 0);
      acts.hidden = !writable;
      buttons.clear.hidden = h.override?.source !== "live";
    };
    return { node, fill };
  }
}

// fillClients writes how many clients ask for a key, and who most.
function fillClients(text, h) {
  setText(text.clients, h.clients ? rate(h.clients) : "–");
  setText(text.client, h.client ? `${percent(h.client_share)} by ${plainKey(h.client)}` : "");
  text.clients.title = clientsText(h) || "the senders do not say who asks";
}

// LoopTable is the table of keys that one or a few clients took over their
// threshold. Nobody acts on it, so it is made anew each second.
export class LoopTable {
  #section; #body;

  constructor(section) {
    this.#section = section;
    this.#body = section.querySelector("tbody");
  }

  show({ at, loops }) {
    this.#section.hidden = loops.length === 0;
    const now = Date.parse(at);
    const cell = (label, classes, ...children) => el("td", { "data-label": label, class: classes }, ...children);
    this.#body.replaceChildren(...loops.map((l) => {
      const who = { clients: el("span"), client: el("span") };
      fillClients(who, l);
      return el("tr", {},
        el("th", { scope: "row", class: "keycell" }, el("a", { href: l.href, title: "all that is known about this key (JSON)" }, keyNode(l.key))),
        cell("Rule", "", l.rule), cell("Rate", "num", rate(l.rate)), cell("For", "num", lasting(now - Date.parse(l.since))),
        cell("Clients", "num", who.clients), cell("Heaviest client", "", who.client));
    }));
  }
}
