// Verdict: the state of the site in a sentence, the worst part first: above all views, as a word in the title and as a
// colour in the icon of the tab. Screen readers read it out when it changes.

import { inside } from "./api.js";
import { reasons } from "./reasons.js";
import {
  $, clientsText, clock, count, countOf, keyHref, keyNode, limitText, overrideText, plainKey, rate, setText, speak,
  times,
} from "./text.js";

// quiet is the shortest time between two sentences that are read out, in milliseconds: a person who listens to other
// things must not be interrupted each second.
const quiet = 12_000;

const flood = 1; // denied requests a second from which denials without a hot key are a flood

// verdicts returns the sentences that hold for a state, the worst first. Each has a kind, a word for the title, a
// subject that changes when there is news, the parts of the sentence, which are texts and nodes, and a path to look
// closer.
export function verdicts(s) {
  return [trouble(s), lateUpstream(s), flooded(s), hot(s), loop(s)].filter(Boolean).concat(calm(s)).slice(0, 3);
}

function trouble({ trouble: list, status }) {
  const failing = status.filter((p) => !p.ok && !isUpstream(p)).map((p) => `${p.name} ${p.value}`);
  const all = [...list, ...failing];
  if (all.length === 0) return null;
  const more = all.length > 1 ? [` · and ${countOf(all.length - 1, "other problem")}`] : [];
  const first = plainKey(all[0].split(/[:.] /)[0]);
  return { kind: "trouble", word: "trouble", subject: all.length, parts: [first, ...more], path: "/audit" };
}

const isUpstream = (p) => p.name.startsWith("upstream ");

function lateUpstream({ status }) {
  const late = status.filter((p) => !p.ok && isUpstream(p));
  if (late.length === 0) return null;
  const parts = [late.map((p) => `${plainKey(p.name)}: ${plainKey(p.value)}`).join(" · ")];
  return { kind: "upstream", word: "slow upstream", subject: late.map((p) => p.name).join(), parts, path: "/audit" };
}

function flooded({ hot, totals: t }) {
  if (hot.length > 0 || !(t.denied_per_second >= flood)) return null;
  const [[reason]] = Object.entries(t.denied_by).sort((a, b) => b[1] - a[1]);
  const denied = `${rate(t.denied_per_second)}/s are denied, ${reasons[reason] ?? reason}`;
  return { kind: "flood", word: "flood", subject: reason, parts: [`No key is hot, and ${denied}`], path: "/#clients" };
}

function hot({ hot: list, totals: t }) {
  const [first] = list;
  if (!first) return null;
  const about = [
    first.rate < first.threshold / 2 ? "below its threshold now" : times(first.rate, first.threshold, "its threshold"),
    held(first),
    first.denied_per_second > 0 && `${rate(first.denied_per_second)}/s denied`,
    first.clients && countOf(first.clients, "client"),
    `since ${clock(first.since).slice(0, -":00".length)}`,
  ].filter(Boolean).map((text) => ` · ${text}`);
  const others = t.hot_keys > 1 ? [`${count(t.hot_keys)} keys are hot · first `] : [];
  return {
    kind: "hot", word: `${count(t.hot_keys)} hot`, subject: `${t.hot_keys} ${first.key}`,
    parts: [...others, keyNode(first.key), ...about], path: keyHref(first),
  };
}

// held describes the limit of a hot key, and the person who set it.
function held({ limit: l, override: o }) {
  if (!l) return o ? `${overrideText(o)}${byAuthor(o)}` : "not limited";
  if (l.mode === "shadow") return `only watched, ${limitText(l)}`;
  return (l.algorithm === "" ? l.text : `held to ${limitText(l)}`) + byAuthor(o);
}

const byAuthor = (o) => (o?.author ? ` by ${plainKey(o.author)}` : "");

function loop({ loops: [first], clients, totals: t }) {
  if (!first) return null;
  const denied = clients.find((c) => c.client === first.heaviest_client);
  const why = denied?.reasons.map((r) => reasons[r.name] ?? r.name).join(" and ");
  const held = denied ? `about ${rate(denied.denied_per_second)}/s of it denied, ${why}` : "not limited";
  const by = clientsText(first);
  const others = t.loops > 1 ? [`${count(t.loops)} loops · first `] : [];
  return {
    kind: "loop", word: countOf(t.loops, "loop"), subject: `${t.loops} ${first.key}`,
    parts: [...others, keyNode(first.key), ` is a loop${by && ` · ${by}`} · ${held}`], path: keyHref(first),
  };
}

function calm(s) {
  const t = s.totals;
  if (s.hot.length > 0 || flooded(s)) return [];
  const pace = t.requests_per_second;
  const known = pace == null ? "no limiter has reported yet" : `${rate(pace)} requests/s`;
  return [{ kind: "calm", word: "calm", subject: "", parts: [`Nothing is hot · ${known}`] }];
}

// icons are the icons of the tab that differ from the usual one, by the kind of the first sentence.
const icons = { hot: "-hot", flood: "-hot", loop: "-hot", trouble: "-bad", upstream: "-bad", lost: "-bad" };

// Verdict shows the sentences of the present state.
export class Verdict {
  #line = $("verdict"); #title; #spoken = ""; #at = -Infinity;

  // title(word) sets the title of the tab.
  constructor(title) { this.#title = title; }

  show(s) {
    const [first, ...others] = verdicts(s);
    this.#tab(first.kind, first.word);
    this.#read(first);
    // The troubles have a list of their own above the line.
    this.#draw(...(first.kind === "trouble" && s.trouble.length > 0 ? others : [first, ...others]));
  }

  // lost shows that the state is not known any more. The banner has the sentence.
  lost(word) {
    this.#line.hidden = true;
    this.#tab("lost", word);
  }

  #tab(kind, word) {
    const icon = document.querySelector("link[rel=icon]"), href = inside(`/assets/icon${icons[kind] ?? ""}.svg`);
    if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
    this.#title(word);
  }

  #read({ kind, subject, parts }) {
    const news = `${kind} ${subject}`;
    if (news === this.#spoken || performance.now() - this.#at < quiet) return;
    [this.#spoken, this.#at] = [news, performance.now()];
    speak(textOf(parts));
  }

  #draw(first, ...others) {
    this.#line.hidden = false;
    this.#line.className = first.kind;
    this.#line.querySelector(".sentence").replaceChildren(...first.parts);
    const open = this.#line.querySelector(".open"), href = first.path ? inside(first.path) : "";
    open.hidden = !href;
    if (open.getAttribute("href") !== href) open.setAttribute("href", href);
    open.setAttribute("aria-label", `Open: ${textOf(first.parts.slice(0, 1))}`);
    setText(this.#line.querySelector(".others"), others.map((o) => textOf(o.parts)).join(" — "));
  }
}

const textOf = (parts) => parts.map((p) => p.textContent ?? p).join("");
