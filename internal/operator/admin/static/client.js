// Client: one client, or the clients of a network, at an address of its own. While the view is open the limiters record
// the client's requests and their decisions.

import { getJSON, inQuery, traceClient } from "./api.js";
import { limitLine } from "./key.js";
import { clientActs } from "./lists.js";
import { reasons } from "./reasons.js";
import { isHeld } from "./still.js";
import {
  $, cell, clock, count, decoded, el, keyLink, keyNode, otherThan, overrideText,
  plainKey, problemText, rate, readableNode,
  setText,
} from "./text.js";

const every = 1000; // milliseconds between two polls
const renewed = 30_000; // a trace lasts a minute

export class ClientView {
  #path = ""; #timer = 0; #act; #writable = false; #asking = false; #tracedAt = -Infinity; #kind = "";

  // The buttons call act(kind, target).
  constructor(act) { this.#act = act; }

  // show begins with the client of an address, percent-encoded as in the address.
  show(path) {
    this.hide();
    [this.#path, this.#asking, this.#tracedAt, this.#kind] = [path, false, -Infinity, ""];
    const name = decoded(path);
    $("client-name").replaceChildren(keyNode(name));
    $("view-client").setAttribute("aria-label", `Client ${plainKey(name)}`);
    setText($("client-trouble"), "");
    $("trace").hidden = true;
    $("client-acts").replaceChildren();
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  hide() { clearInterval(this.#timer); }

  writable(yes) {
    this.#writable = yes;
    this.#kind = ""; // the buttons are made again
  }

  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    const path = this.#path;
    try {
      if (this.#writable && performance.now() - this.#tracedAt > renewed) {
        this.#tracedAt = performance.now();
        await traceClient(path);
      }
      const c = await getJSON(`/v1/client?client=${inQuery(path)}`);
      if (path !== this.#path) return;
      const other = otherThan(path, c);
      if (other) setText($("client-trouble"), other);
      else this.#fill(c);
    } catch (problem) {
      if (path === this.#path) setText($("client-trouble"), problemText(problem));
    } finally {
      if (path === this.#path) this.#asking = false;
    }
  }

  #fill(c) {
    setText($("client-trouble"), "");
    if (c.kind && this.#writable && this.#kind !== c.kind) {
      this.#kind = c.kind;
      $("client-acts").replaceChildren(clientActs({ [c.kind]: c.client }, this.#act));
    }
    const t = c.trace;
    const by = t && (t.limiters === 1 ? "by 1 limiter" : `by ${count(t.limiters)} limiters`);
    const none = this.#writable ? "The limiters begin to record its requests."
      : "No trace runs; it begins when an operator opens this view.";
    setText($("trace-note"), t ? `${count(t.requests)} requests seen ${by}, until ${clock(t.until)}` : none);
    $("trace").hidden = !t || t.rows.length === 0;
    const body = $("trace").tBodies[0];
    if (t && !isHeld(body)) body.replaceChildren(...t.rows.map(row));
    const held = c.override && el("li", { class: "applies" }, el("b", {}, "Set by a person"), " ",
      el("span", {}, overrideText(c.override)), el("span", { class: "note" }, plainKey(c.override.reason ?? "")));
    const denied = c.denied && el("li", {}, el("b", {}, "Recent denials"), " ",
      `${rate(c.denied.denied_per_second)}/s: `, c.denied.reasons.map((r) => reasons[r.name] ?? r.name).join(", "),
      el("span", { class: "note" }, [c.denied.network, c.denied.class && `class ${plainKey(c.denied.class)}`]
        .filter(Boolean).join(" · ")));
    const holds = [held, ...c.limits.map(limitLine), denied].filter(Boolean);
    if (holds.length === 0) holds.push(el("li", { class: "note" }, "No override and no limit of clients applies."));
    $("client-holds").replaceChildren(...holds);
  }
}

// Why requests are allowed, by reason. Other reasons are shown by their names.
const allowed = {
  cold: "no limit of a hot key applies", hot: "within the limit of a hot key", override: "within an override",
  exempt: "exempt", cached: "answered from the cache", store: "Redis does not answer",
};

function row(r) {
  return el("tr", { class: r.allowed ? "" : "denying" },
    el("th", { scope: "row", class: "keycell" },
      r.key ? keyLink(r) : el("span", { class: "note" }, "counted by no rule"), readableNode(r.key)),
    cell("Verdict", "verdict", r.allowed ? "allowed" : "denied"),
    cell("Why", "", (r.allowed ? allowed : reasons)[r.reason] ?? r.reason),
    cell("Requests", "num", count(r.requests)), cell("Last", "", clock(r.last)));
}
