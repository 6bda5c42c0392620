// Verdict: the state of the site in a sentence, the worst part first. Screen readers read it out when it changes.

import { reasons } from "./reasons.js";
import { clientsText, count, countOf, keyLink, plainKey, rate, speak, times } from "./text.js";

// quiet is the shortest time between two sentences that are read out, in milliseconds: a person who listens to other
// things must not be interrupted each second.
const quiet = 12_000;

const flood = 1; // denied requests a second from which denials without a hot key are a flood

// verdicts returns the sentences that hold for a state, the worst first. Each has a kind, a subject that changes when
// there is news, and the parts of the sentence, which are texts and nodes.
export function verdicts(s) {
  return [trouble(s), lateUpstream(s), flooded(s), hot(s), loop(s)].filter(Boolean).concat(calm(s)).slice(0, 3);
}

function trouble({ trouble: list, status }) {
  const failing = status.filter((p) => !p.ok && !isUpstream(p)).map((p) => `${p.name} ${p.value}`);
  const all = [...list, ...failing];
  if (all.length === 0) return null;
  const more = all.length > 1 ? [` · and ${countOf(all.length - 1, "other problem")}`] : [];
  return { kind: "trouble", subject: all.length, parts: [plainKey(all[0].split(/[:.] /)[0]), ...more] };
}

const isUpstream = (p) => p.name.startsWith("upstream ");

function lateUpstream({ status }) {
  const late = status.filter((p) => !p.ok && isUpstream(p));
  if (late.length === 0) return null;
  const parts = late.map((p) => `${plainKey(p.name)}: ${plainKey(p.value)}`);
  return { kind: "upstream", subject: late.map((p) => p.name).join(), parts: [parts.join(" · ")] };
}

function flooded({ hot, totals: t }) {
  if (hot.length > 0 || !(t.denied_per_second >= flood)) return null;
  const [[reason]] = Object.entries(t.denied_by).sort((a, b) => b[1] - a[1]);
  const denied = `${rate(t.denied_per_second)}/s are denied, ${reasons[reason] ?? reason}`;
  return { kind: "flood", subject: reason, parts: [`No key is hot, and ${denied}`] };
}

function hot({ hot: list, totals: t }) {
  const [first] = list;
  if (!first) return null;
  const about = [
    times(first.rate, first.threshold, "its threshold"), held(first),
    first.denied_per_second > 0 && `${rate(first.denied_per_second)}/s denied`,
    first.clients && countOf(first.clients, "client"),
  ].filter(Boolean).map((text) => ` · ${text}`);
  const others = t.hot_keys > 1 ? [`${count(t.hot_keys)} keys are hot · first `] : [];
  return { kind: "hot", subject: `${t.hot_keys} ${first.key}`, parts: [...others, keyLink(first), ...about] };
}

// held describes the limit of a hot key.
function held({ limit: l }) {
  if (!l) return "not limited";
  if (l.mode === "shadow") return `only watched, ${l.text}`;
  return l.algorithm === "" ? l.text : `held to ${l.text}`;
}

function loop({ loops: [first], totals: t }) {
  if (!first) return null;
  const by = clientsText(first);
  const others = t.loops > 1 ? [`${count(t.loops)} loops · first `] : [];
  const parts = [...others, keyLink(first), ` is a loop${by && ` · ${by}`} · not limited`];
  return { kind: "loop", subject: `${t.loops} ${first.key}`, parts };
}

function calm({ hot, totals: t }) {
  if (hot.length > 0) return [];
  const pace = t.requests_per_second;
  const known = pace == null ? "no limiter has reported yet" : `${rate(pace)} requests/s`;
  return [{ kind: "calm", subject: "", parts: [`Nothing is hot · ${known}`] }];
}

// Verdict reads out the first sentence when its kind or its subject changes.
export class Verdict {
  #spoken = ""; #at = -Infinity;

  show(s) {
    const [{ kind, subject, parts }] = verdicts(s), news = `${kind} ${subject}`;
    if (news === this.#spoken || performance.now() - this.#at < quiet) return;
    [this.#spoken, this.#at] = [news, performance.now()];
    speak(parts.map((p) => p.textContent ?? p).join(""));
  }
}
