// Lists: loops, clients, and the keys closest to their thresholds, in the view Now. Rows live as long as they are
// shown.

import { reasons } from "./reasons.js";
import { HeldList } from "./still.js";
import {
  cell, cellRate, clientLink, clientsText, costRate, count, el, keyLink, lasting, overrideText, percent, plainKey,
  rate, readableNode, setText,
} from "./text.js";

// fillRows shows items as the children of a node. make(item) returns {node, fill}; fill(item) writes the item's present
// values into the node. Items that left the list turn grey.
export function fillRows(body, rows, items, gone, idOf, make) {
  const wanted = new Set(items.map(idOf));
  for (const [id, row] of rows) {
    if (wanted.has(id)) continue;
    row.node.remove();
    rows.delete(id);
  }
  items.forEach((item, i) => {
    const id = idOf(item);
    let row = rows.get(id);
    if (!row) rows.set(id, row = make(item));
    row.fill(item, gone.has(id));
    row.node.classList.toggle("gone", gone.has(id));
    if (body.children[i] !== row.node) body.insertBefore(row.node, body.children[i] ?? null);
  });
}

// clientActs returns the buttons that set an override for a client or a network. A target holds client or cidr, and in
// row the server's name of the list that it is taken from. Each button names its target's kind, because it may stand in
// the row of a key.
export function clientActs(target, act) {
  const name = target.client ?? target.cidr, whom = target.client ? "client" : "network";
  const button = (kind, text) => el("button", {
    type: "button", class: "small", "data-act": kind, "aria-label": `${text} ${whom} ${plainKey(name)}`,
    onclick: () => act(kind, target),
  }, `${text} ${whom}`);
  return el("div", { class: "acts" }, button("limit", "Limit"), button("block", "Block"), button("exempt", "Exempt"));
}

// isAddress reports whether a client is an address: an override can name only addresses.
const isAddress = (client) => /^[0-9.]+$|:/.test(client ?? "");

// fillClients writes the number of clients of a key, and into a note the heaviest client.
export function fillClients(text, h) {
  setText(text.clients, h.clients ? count(h.clients) : "–");
  if (text.client) {
    setText(text.client, h.heaviest_client ? `${percent(h.client_share)} by ${plainKey(h.heaviest_client)}` : "");
  }
  text.clients.title = clientsText(h) || "the senders do not name clients";
}

const pageSize = 10;
const shownClients = 10; // the stream has no more clients in a list

// List is a table in a card that is hidden while the table is empty. It shows its first rows, and further ones when a
// person asks for them.
class List {
  #section; #held; #writable = false; #most = pageSize; #rest; #note;

  constructor(section, idOf, row) {
    this.#section = section;
    const body = section.querySelector("tbody"), rows = new Map();
    this.#rest = el("button", { type: "button", class: "small", onclick: () => { this.#most += pageSize; } });
    this.#note = el("span", { class: "note" });
    section.append(el("p", { class: "rest" }, this.#note, " ", this.#rest));
    this.#held = new HeldList(body, section.querySelector(".more"), idOf, (items, gone) => {
      section.hidden = items.length === 0;
      fillRows(body, rows, items, gone, idOf, (item) => row(item, () => this.#writable));
    });
  }

  // show takes the items that are known, of total; bound is the greatest number that can be known, if there may be
  // more. The rows that a person asks for come with the next second.
  show(items, writable, { total = items.length, bound = Infinity } = {}) {
    this.#writable = writable;
    const shown = items.slice(0, this.#most), more = Math.min(pageSize, items.length - shown.length);
    this.#held.show(shown);
    this.#rest.hidden = more <= 0;
    setText(this.#rest, `${more} more`);
    const cut = total > items.length ? `, of which the first ${count(items.length)} are listed` : "";
    const first = items.length >= bound ? `the first ${count(bound)}; there may be more` : "";
    setText(this.#note, more > 0 || cut ? `${count(shown.length)} of ${count(total)}${cut}` : first);
    return !this.#section.hidden;
  }
}

// refill replaces the cells that differ. A cell that has the focus or the pointer stays, so that a click reaches it.
function refill(node, cells) {
  cells.forEach((next, i) => {
    const now = node.children[i];
    if (!now) return node.append(next);
    const used = now.contains(document.activeElement) || now.matches(":hover");
    if (!used && !now.isEqualNode(next)) now.replaceWith(next);
    return undefined;
  });
}

// remade returns a row whose cells are made again from each item, except the last cell, which holds the buttons.
function remade(cells, acts, canAct) {
  const node = el("tr"), last = cell("", "actcell", acts ?? "");
  return {
    node,
    fill(item) {
      if (acts) acts.hidden = !canAct();
      refill(node, cells(item));
      if (last.parentNode !== node) node.append(last);
    },
  };
}

// loopList lists the keys that one or a few clients lifted over their threshold.
export function loopList(section, act) {
  const list = new List(section, (l) => `${l.key}\n${l.heaviest_client}`, (first, canAct) => {
    const client = first.heaviest_client;
    const acts = isAddress(client) ? clientActs({ client, row: "loop" }, act) : null;
    return remade((l) => {
      const who = { clients: el("span") };
      fillClients(who, l);
      return [
        el("th", { scope: "row", class: "keycell" }, keyLink(l)),
        cell("Rule", "minor", plainKey(l.rule)), cell("Rate", "num", cellRate(l.rate, l.cost)),
        cell("For", "num minor", lasting(l.lasted)), cell("Clients", "num minor", who.clients),
        cell("Heaviest client", "", client ? clientLink(client) : "",
          el("small", { class: "note" }, client ? percent(l.client_share) : "")),
      ];
    }, acts, canAct);
  });
  return ({ at, loops, clients_limited: limited, totals }, writable) => {
    setText(section.querySelector("#loops-limits"), limited
      ? "Loops are not limited; limits per address apply to their clients."
      : "Loops are not limited, because the rules have no limit per address (ip).");
    return list.show(loops.map((l) => ({ ...l, lasted: Date.parse(at) - Date.parse(l.since) })), writable,
      { total: totals.loops });
  };
}

const about = (n) => `about ${rate(n)}`;
const part = (c) => [c.network, c.class && `class ${plainKey(c.class)}`].filter(Boolean).join(" · ");

// deniedList lists the clients that are denied by their own windows, their share of a limit, or an override.
export function deniedList(section, act) {
  const list = new List(section, (c) => c.client, (first, canAct) => remade((c) => [
    el("th", { scope: "row", class: "keycell" }, clientLink(c.client), el("small", { class: "note" }, part(c))),
    cell("Denied/s", "num bad", about(c.denied_per_second)),
    cell("Why", "", c.reasons.map((r) => reasons[r.name] ?? r.name).join(", ")),
    cell("Keys", "", el("ul", {}, ...c.keys.slice(0, 3).map((k) =>
      el("li", {}, keyLink(k), " ", el("span", { class: "note" }, percent(k.share)))))),
    cell("Override", "minor", c.override ? overrideText(c.override) : "–"),
  ], first.address ? clientActs({ client: first.client, row: "denied" }, act) : null, canAct));
  return ({ clients }, writable) => list.show(clients, writable, { bound: shownClients });
}

// heaviestList lists the clients and networks with most requests, denied or not.
export function heaviestList(section, act) {
  const list = new List(section, (c) => c.client, (first, canAct) => remade((c) => [
    el("th", { scope: "row", class: "keycell" }, clientLink(c.client),
      el("small", { class: "note" }, c.clients > 1 ? `${count(c.clients)} clients` : part(c))),
    cell("Requests/s", "num", about(c.requests_per_second)), cell("Share", "num", percent(c.share)),
    cell("Override", "minor", c.override ? overrideText(c.override) : "–"),
  ], first.kind ? clientActs({ [first.kind]: first.client, row: "heaviest" }, act) : null, canAct));
  return ({ heaviest }, writable) => list.show(heaviest, writable, { bound: shownClients });
}

// closestList lists the keys nearest to their thresholds while no key is hot.
export function closestList(section) {
  const list = section.querySelector("ul"), rows = new Map(), idOf = (c) => c.key;
  const held = new HeldList(list, section.querySelector(".more"), idOf, (items, gone) => {
    section.hidden = items.length === 0;
    fillRows(list, rows, items, gone, idOf, (first) => {
      const meter = el("meter", { min: 0, "aria-label": `part of the threshold of ${plainKey(first.key)}` });
      const note = el("span", { class: "note" });
      return {
        node: el("li", {}, el("span", {}, keyLink(first), readableNode(first.key)), meter, note),
        fill(c) {
          [meter.max, meter.value] = [c.threshold, Math.min(c.rate, c.threshold)];
          setText(note, `${cellRate(c.rate, c.cost)} of ${costRate(c.threshold, c.cost)} · rule ${c.rule}`);
        },
      };
    });
  });
  return (closest) => held.show(closest);
}
