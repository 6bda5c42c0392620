// Key: all that is known about one key, at an address of its own.

import { getJSON } from "./api.js";
import { clientsText, clock, el, keyNode, overrideText, plainKey, rate, setText, times } from "./text.js";

const $ = (id) => document.getElementById(id);
const every = 1000; // milliseconds between two questions

export class KeyView {
  #path = ""; #timer = 0; #known = null; #asking = false; #act;

  // act(kind, hotKey) is called by the buttons.
  constructor(act) {
    this.#act = act;
    for (const button of document.querySelectorAll("#key-acts button")) {
      button.addEventListener("click", () => this.#known && this.#act(button.dataset.act, hotOf(this.#known)));
    }
  }

  // show begins with the key of an address, percent-encoded as it is there.
  show(path) {
    this.hide();
    this.#path = path;
    this.#known = null;
    $("key-body").hidden = true;
    setText($("key-trouble"), "");
    $("key-name").replaceChildren(keyNode(decoded(path)));
    $("key-json").href = `/v1/keys/${path}`;
    $("view-key").setAttribute("aria-label", plainKey(decoded(path)));
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  hide() { clearInterval(this.#timer); }

  writable(yes) { $("key-acts").hidden = !yes; }

  async #ask() {
    if (this.#asking) return;
    this.#asking = true;
    const path = this.#path;
    try {
      const known = await getJSON(`/v1/keys/${path}`);
      if (path === this.#path) this.#fill(known);
    } catch (problem) {
      setText($("key-trouble"), [problem.message, problem.remedy].filter(Boolean).join(": "));
    } finally {
      this.#asking = false;
    }
  }

  #fill(k) {
    this.#known = k;
    setText($("key-trouble"), (k.warnings ?? []).join("; "));
    $("key-name").replaceChildren(keyNode(k.key));
    $("key-body").hidden = false;
    const heat = k.heat ?? k.loop;
    setText($("key-state"), k.hot ? "hot" : k.loop ? "a loop" : "not hot");
    setText($("key-since"), heat ? `since ${clock(heat.since)}${k.hot && heat.why ? ` · by ${heat.why}` : ""}` : "");
    setText($("key-rate"), heat ? rate(heat.rate) : "–");
    setText($("key-times"), heat ? [k.rule && times(heat.rate, k.rule.hot_rate), clientsText(heat)].filter(Boolean).join(" · ") : "");
    setText($("key-allowed"), rate(k.allowed_per_second));
    setText($("key-denied"), rate(k.denied_per_second));
    $("key-limits").replaceChildren(...[overrideLine(k), ...k.limits.map(limitLine)].filter(Boolean));
    $("key-acts").querySelector("[data-act=clear]").hidden = k.override?.source !== "live";
  }
}

// hotOf is a key as the buttons of a hot key know it.
function hotOf(k) {
  const held = k.limits.find((l) => l.limit && (l.source === "override" || l.source === "rule"));
  return { key: k.key, rate: k.heat?.rate ?? k.rule?.hot_rate ?? 1, limit: held?.limit, override: k.override };
}

const sources = { override: "Override", rule: "Rule", ip_fixed: "Per address", ip_sliding: "Per address, long" };

function limitLine(l) {
  return el("li", { class: l.applies ? "applies" : "rests" },
    el("b", {}, sources[l.source] ?? l.source), " ", el("span", {}, l.limit?.text ?? ""),
    el("span", { class: "badge" }, l.applies ? "applies" : "does not apply"), el("span", { class: "note" }, l.why));
}

function overrideLine({ override: o }) {
  if (!o) return null;
  const about = [o.reason, o.author && `by ${o.author}`, o.until && `until ${clock(o.until)}`].filter(Boolean).join(" · ");
  return el("li", { class: "applies" }, el("b", {}, "Set by a person"), " ", overrideText(o), el("span", { class: "note" }, about));
}

// decoded is what can be read of a path; what is no text shows as such.
function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    const bytes = path.replace(/%([0-9a-f]{2})|[^%]/gi, (all, hex) => (hex ? String.fromCharCode(parseInt(hex, 16)) : all));
    return new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
  }
}
