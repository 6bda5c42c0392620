// Rules: the rules that the program runs, with the limits in force. If the rules are in a central store, also their
// versions, the changes between versions, the way back, and a push.

import { enforceRule, getJSON, putRules, tryRules } from "./api.js";
import { secondWord } from "./dialog.js";
import { enforceText } from "./hot.js";
import { keepingFocus } from "./still.js";
import { $, cell, costRate, count, el, keyNode, plainKey, problemText, rate, setText, zoned } from "./text.js";

const every = 5000; // milliseconds between two polls while the view is open

export class RulesView {
  #timer = 0; #say; #version = -1; #revisions = []; #loaded = ""; #base = 0;

  // say(parts) shows the person the result of an action.
  constructor(say) {
    this.#say = say;
    $("push-try").addEventListener("click", () => this.#try());
    $("push").addEventListener("submit", (e) => { e.preventDefault(); this.#push(); });
  }

  show() {
    this.hide();
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), every);
  }

  hide() { clearInterval(this.#timer); }

  async #ask() {
    try {
      const { rules, clients, central } = await getJSON("/v1/rules/running");
      const body = $("running").tBodies[0], enforce = central && ((r) => this.#enforce(r));
      keepingFocus(body, () => body.replaceChildren(...rules.map((r) => ruleRow(r, enforce))));
      $("running-clients").replaceChildren(...clients.map(clientRow));
      if (central) await this.#central();
      else setText($("rules-from"), "From a file: change the file, or start the program with --rules.");
    } catch { /* the banner says that the server is gone */ }
  }

  // central shows the store of the rules.
  async #central() {
    let stored;
    try {
      stored = await getJSON("/v1/rules");
    } catch (problem) {
      return setText($("rules-from"), problemText(problem));
    }
    for (const part of document.querySelectorAll("#view-rules .central")) part.hidden = false;
    setText($("rules-from"), fromText(stored));
    if (stored.version === this.#version) return undefined; // so that rows keep the focus
    try {
      this.#revisions = (await getJSON("/v1/rules/history")).revisions;
    } catch (problem) {
      return setText($("versions-note"), problem.message);
    }
    this.#version = stored.version;
    // A text that is being written stays, on top of the version that it was made from; the server refuses it then.
    if ($("push-text").value === this.#loaded) this.#load(stored);
    setText($("versions-note"), this.#revisions.length === 0 ? "no version was pushed yet" : "");
    $("versions").tBodies[0].replaceChildren(...this.#revisions.map((r, i) => this.#row(r, i, stored.current)));
    return undefined;
  }

  #load({ version, current }) {
    [this.#loaded, this.#base] = [current?.text ?? "", version];
    $("push-text").value = this.#loaded;
    this.#loaded = $("push-text").value; // as the element normalises it
  }

  #row(r, i, current) {
    const before = this.#revisions[i + 1];
    const button = (act, name, classes = "") => el("button", {
      type: "button", class: `small ${classes}`, "data-act": act, "aria-label": `${name}: version ${r.version}`,
      onclick: () => this.#act(act, r, before),
    }, name);
    const acts = [
      before && button("diff", "Changes"), button("text", "Text"),
      r.hash !== current?.hash && button("back", "Roll back to it", "admins"),
    ].filter(Boolean);
    return el("tr", {},
      el("th", { scope: "row", class: "keycell" }, `${r.version}`,
        r.version === current?.version ? el("span", { class: "badge" }, "in force") : ""),
      cell("When", "", el("time", { datetime: r.at }, zoned(r.at))), cell("Who", "", plainKey(r.author || "–")),
      cell("Reason", "words", plainKey(r.reason || "–")),
      cell("", "actcell", el("div", { class: "acts" }, ...acts)));
  }

  async #act(act, r, before) {
    try {
      if (act === "diff") {
        const [from, to] = await Promise.all([before, r].map((v) => getJSON(`/v1/rules/history/${v.version}`)));
        return this.#shown(`From version ${before.version} to ${r.version}`, differences(from.text, to.text));
      }
      const { text } = await getJSON(`/v1/rules/history/${r.version}`);
      if (act === "text") return this.#shown(`Version ${r.version}`, lines(text).map((line) => ["", line]));
      const back = `back to version ${r.version}`;
      return await this.#put(text, this.#version, back, `Rolled ${back}`);
    } catch (problem) {
      return this.#say([problemText(problem)]);
    }
  }

  // enforce pushes the rules with the limit of one rule enforced.
  async #enforce({ name }) {
    try {
      const reason = `enforce the limit of rule ${name}`;
      const stored = await secondWord((confirm) => enforceRule(name, this.#version, reason, confirm));
      this.#load(stored);
      this.#say(["Enforced the limit of rule ", keyNode(name), `: version ${stored.version} now.`]);
      await this.#ask();
    } catch (problem) {
      this.#say([problemText(problem)]);
    }
  }

  #shown(title, list) {
    setText($("rules-shown-title"), title);
    $("rules-diff").replaceChildren(...list.map(([kind, line]) =>
      el("span", { class: `line ${kind}` }, `${{ added: "+ ", removed: "- " }[kind] ?? "  "}${plainKey(line)}`)));
    $("rules-shown").hidden = false;
    $("rules-diff").focus();
  }

  async #put(text, version, reason, done) {
    const stored = await secondWord((confirm) => putRules(text, version, reason, confirm));
    this.#load(stored);
    this.#say([`${done}: it is version ${stored.version} now.`]);
    await this.#ask();
  }

  async #push() {
    setText($("push-result"), "");
    try {
      await this.#put($("push-text").value, this.#base, $("push-reason").value.trim(), "Pushed");
      $("push-reason").value = "";
    } catch (problem) {
      setText($("push-result"), problemText(problem));
    }
  }

  async #try() {
    setText($("push-result"), "");
    try {
      const a = await tryRules($("push-text").value);
      const keys = a.keys.slice(0, 8).map((k) => el("li", {}, keyNode(k.key), " ", el("span", { class: "note" },
        `peak ${costRate(k.peak, k.cost)} · ${k.before} → ${k.after} · denied ${count(k.denied_before)} → ` +
        `${k.after === "uncounted" || k.after === "recounted" ? "not known" : count(k.denied_after)}`)));
      $("push-result").replaceChildren(
        `On ${a.minutes} minutes of history ${count(a.keys.length)} keys change and ${count(a.unchanged)} do not. ` +
        "Nothing was stored. ", el("ul", { class: "lines" }, ...keys), ...windowParts(a.windows));
    } catch (problem) {
      setText($("push-result"), problemText(problem));
    }
  }
}

// windowParts shows the effect of the windows of clients, and the windows that were not tried.
function windowParts(w) {
  if (!w) return [];
  const list = w.rules.map((r) => el("li", {}, r.rule ? keyNode(r.rule) : "Each client, all requests", " ",
    el("span", { class: "note" }, `${rate(r.requests_per_second)}/s · denied ${rate(r.denied_before)}/s → ` +
      `${rate(r.denied_after)}/s · clients denied ${count(r.clients_before)} → ${count(r.clients_after)} of ` +
      `${count(r.clients)}${r.examples.length > 0 ? ` · ${r.examples.map(plainKey).join(", ")}` : ""}`)));
  const parts = w.not_tried.map((text) => `Windows of clients are not tried: ${plainKey(text)}. `);
  if (w.known_from !== null) {
    parts.unshift(`Windows of clients, by ${count(w.sampled)} sampled requests of the last minute; clients below ` +
      `${rate(w.known_from)}/s are not known. `);
  }
  return [...parts, el("ul", { class: "lines" }, ...list)];
}

function fromText(s) {
  if (!s.current) return `From ${plainKey(s.store)}, which holds no rules yet.`;
  const c = s.current;
  const by = c.author ? ` by ${plainKey(c.author)}` : "";
  const parts = [`From ${plainKey(s.store)} version ${c.version}, pushed${by} ${zoned(c.at)}`];
  if (s.running !== c.version) parts.push(`this program runs version ${s.running}`);
  const late = s.limiters.filter((l) => l.running !== c.version);
  if (late.length > 0) parts.push(`${late.length} of ${s.limiters.length} limiters run another version`);
  if (s.why) parts.push(`version ${s.refused} is rejected: ${plainKey(s.why)}`);
  if (s.store_error) parts.push("the store does not answer; these are its last known rules");
  return parts.join(" · ");
}

// ruleRow shows a rule. enforce(rule) enforces a limit that is in shadow mode; it is absent if the rules are of a file.
function ruleRow(r, enforce) {
  const values = r.values > 0 && `${count(r.values)} keys with a limit of their own`;
  const would = r.would_deny_per_second > 0 && `would deny ${rate(r.would_deny_per_second)}/s in shadow mode`;
  const more = [values, r.cache && "answered from the cache", would];
  const text = enforceText({ tried: { ...r, hits_per_second: r.requests_per_second } });
  const button = enforce && r.limit?.mode === "shadow" ? el("button", {
    type: "button", class: "small admins", "data-act": "enforce", "aria-label": `${text}: rule ${plainKey(r.name)}`,
    onclick: () => enforce(r),
  }, text) : "";
  return el("tr", { "data-id": r.name },
    el("th", { scope: "row", class: "keycell" }, keyNode(r.name)),
    cell("Counts", "words", plainKey(r.match), el("small", { class: "note" },
      r.params.length > 0 ? `by ${r.params.map(plainKey).join(", ")}` : "as one key"),
    r.note ? el("small", { class: "error" }, plainKey(r.note)) : ""),
    cell("Hot from", "", r.hot),
    cell("Limit", "words", limitText(r),
      el("small", { class: "note" }, more.filter(Boolean).join(" · ")), button),
    cell("Hot keys", "num", count(r.hot_keys)));
}

// limitText names the limit of the hot keys of a rule and the windows of its clients.
function limitText({ hot, limit, per_client: windows }) {
  const each = windowTexts(windows).map((text) => `each client ${text}`);
  if (hot !== "never" || each.length === 0) each.unshift(limit ? limit.text : "detected only");
  return each.join(" · ");
}

const windowTexts = (w) => [w?.fixed, w?.sliding].filter(Boolean).map((l) => l.text);

function clientRow(c) {
  const parts = [c.fixed, c.sliding, c.in_flight].filter(Boolean).map((l) => l.text);
  parts.push(...windowTexts(c.per_client).map((text) => `${text} in each rule with windows of its clients`));
  return el("li", {}, el("b", {}, c.class ? `Class ${plainKey(c.class)}` : "Every client"), " ",
    parts.length > 0 ? parts.join(" · ") : "no limit");
}

const lines = (text) => text.replace(/\n$/, "").split("\n");

// differences returns the lines of two texts, each marked added, removed or "". It leaves out all but a few lines of
// the common beginning and end; the lines between are matched by the longest common subsequence.
function differences(from, to) {
  const a = lines(from), b = lines(to), around = 3, most = 4e6;
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  if (head === a.length && head === b.length) return [["note", "no difference"]];
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
  const same = (list) => list.map((line) => ["", line]);
  const middle = x.length * y.length > most
    ? [...x.map((line) => ["removed", line]), ...y.map((line) => ["added", line])] : merged(x, y);
  return [...same(a.slice(Math.max(0, head - around), head)), ...middle,
    ...same(a.slice(a.length - tail, a.length - tail + around))];
}

function merged(x, y) {
  const width = y.length + 1, common = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      common[i * width + j] = x[i] === y[j] ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const out = [];
  let i = 0, j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      out.push(["", x[i++]]);
      j++;
    } else if (j === y.length || (i < x.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      out.push(["removed", x[i++]]);
    } else {
      out.push(["added", y[j++]]);
    }
  }
  return out;
}
