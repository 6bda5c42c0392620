// Text: how values become nodes and words. Everything that comes from the server reaches the page as text nodes through
// these functions, because keys hold text that strangers typed into a URL.

import { inside, serverNow } from "./api.js";

// el makes an element. attributes are by name, children are nodes or strings.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const $ = (id) => document.getElementById(id);

// cell makes a cell of a table; narrow windows show its label.
export const cell = (label, classes, ...children) => el("td", { "data-label": label, class: classes }, ...children);

// problemText writes the problem and its remedy.
export const problemText = ({ message, remedy }) =>
  [message, remedy].filter(Boolean).join(message.endsWith(".") ? " " : ": ");

// Characters that show nothing, or that change the order of other characters: controls, format characters (among them
// all that turn the direction of text), line separators, private and unassigned characters, and the replacement
// character for broken bytes.
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u{FFFD}\u{115F}\u{1160}\u{3164}\u{FFA0}]|[\p{Zs}--[ ]]/v;

// keyNode shows a key unchanged, but for unseen characters, which are shown as code points.
export function keyNode(key) {
  const node = el("bdi", { class: "key", dir: "ltr" });
  let run = "";
  for (const c of key) {
    if (!unseen.test(c)) {
      run += c;
      continue;
    }
    if (run) node.append(run);
    run = "";
    const code = "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    node.append(el("span", { class: "unseen-char", title: "an invisible or control character" }, code));
  }
  if (run) node.append(run);
  return node;
}

// keyLink leads to the view of a key. href is the API's path of the key, and is exact also for keys that JSON cannot
// hold.
export const keyLink = (h) => el("a", { href: inside(keyHref(h)) }, keyNode(h.key));

// keyHref returns the path of the view of a key.
export const keyHref = ({ href }) => href.replace("/v1/", "/");

// cutLink leads to the view of a key by its decoded name, on one line. A name that does not fit is cut in its middle,
// because names differ at both ends.
export function cutLink(h) {
  const name = plainKey(readable(h.key) || h.key), letters = [...name].slice(0, 300);
  const end = letters.length > 8 ? Math.min(10, Math.floor(letters.length / 2)) : 0;
  const part = (from, to) => el("bdi", { class: "key", dir: "ltr" }, letters.slice(from, to).join(""));
  return el("a", { href: inside(keyHref(h)), class: "cut", title: plainKey(h.key), "aria-label": name },
    part(0, letters.length - end), end > 0 ? part(letters.length - end) : "");
}

// readable returns a key with its values decoded, or "" if that shows nothing more: ?q=%D8%A3 as أ, %20 as a space.
export function readable(key) {
  try {
    const text = decodeURIComponent(key);
    return text === key ? "" : text;
  } catch {
    return ""; // the bytes are not text
  }
}

// readableNode returns the decoded key, to be shown beside the exact key.
export function readableNode(key) {
  const text = readable(key);
  if (!text) return "";
  const node = keyNode(text);
  node.classList.add("readable");
  node.setAttribute("dir", "auto");
  return node;
}

// clientLink leads to the view of a client or a network.
export const clientLink = (name) =>
  el("a", { href: inside("/client?client=" + encodeURIComponent(name)) }, keyNode(name));

// plainKey returns the text of keyNode, for labels.
export const plainKey = (key) => keyNode(key).textContent;

// The possible targets of an override, by the name of their field.
const targets = { key: "", resource: "resource", client: "client", cidr: "network", class: "class" };

// targetOf returns the field of an override that names its target, and the value of that field.
export function targetOf(o) {
  const kind = Object.keys(targets).find((name) => o[name]) ?? "key";
  return { kind, value: o[kind] ?? "" };
}

// targetNode shows the target of an override.
export function targetNode(o) {
  const { kind, value } = targetOf(o);
  return kind === "key" ? keyNode(value) : el("span", {}, `${targets[kind]} `, keyNode(value));
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// rate writes a number per second: 0.4, 312, 12,345, 1.2M; or a dash if it is unknown.
export function rate(n) {
  if (n == null || !isFinite(n)) return "–";
  if (n >= 1e6) return compact.format(n);
  return n < 10 ? fine.format(n) : whole.format(n);
}

// costRate writes a rate of a key with its unit: 312/s, or of a rule that counts another cost than requests 1.2 s/s,
// 40 ms/s, 3.4 MB/s, 12 X-Cost/s. It returns a dash if the rate is unknown.
export function costRate(n, cost) {
  if (n == null || !isFinite(n)) return "–";
  if (!cost) return `${rate(n)}/s`;
  if (cost === "time") return n < 0.1 ? `${short(1000 * n)} ms/s` : `${short(n)} s/s`;
  if (cost === "bytes") {
    let power = 0;
    for (; n >= 1000 && power < sizes.length - 1; power++) n /= 1000;
    return `${short(n)} ${sizes[power]}/s`;
  }
  return `${short(n)} ${fieldName(cost)}/s`;
}

const fieldName = (cost) =>
  cost.replace(/^response\./, "").toLowerCase().replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());

// unitName names the unit of the limit of a rule with a cost, as the label of a field begins.
export const unitName = (cost) => ({ "": "Requests", time: "Seconds", bytes: "Bytes" })[cost] ?? fieldName(cost);

// countsOf returns the number that the API has in a burst for one unit of a cost, because it has microseconds.
export const countsOf = (cost) => (cost === "time" ? 1e6 : 1);

let costs = {}; // of the rules that count another cost than requests, by their names

export function setCosts(of = {}) { costs = of; }

// costOfTarget returns the cost in whose units an override of a key or a resource limits, or "" for requests. The
// catch-all counts the keys that begin with a path.
export function costOfTarget({ key, resource }) {
  const name = resource || (key ?? "").split("?")[0];
  return costs[name] ?? (name.startsWith("/") ? costs["*"] : "") ?? "";
}

const sizes = ["B", "kB", "MB", "GB", "TB"];

// short writes two digits, or a whole number from 10 on.
const short = (n) => (n >= 10 ? whole.format(n) : String(Number(n.toPrecision(2))));

// cellRate writes a rate for a column of requests a second: with a unit only if it is of another cost.
export const cellRate = (n, cost) => (cost ? costRate(n, cost) : rate(n));

export const count = (n) => whole.format(n);

// countOf writes a number of things: 1 hot key, 2 hot keys.
export const countOf = (n, thing) => `${whole.format(n)} ${thing}${n === 1 ? "" : "s"}`;

// times writes a rate as a multiple of another rate, or "" if that is unknown.
export const times = (n, of, name) => (of > 0 ? `${fine.format(n / of)} × ${name}` : "");

// lasting writes a span of milliseconds by its two largest units.
export function lasting(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(s % 60).padStart(2, "0")}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}

const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const dayFormat = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

// clock writes the time of day, and before it the date if that is not today.
export function clock(at, now = new Date(serverNow())) {
  const t = new Date(at);
  const time = clockFormat.format(t);
  return t.toDateString() === now.toDateString() ? time : `${dayFormat.format(t)} ${time}`;
}

const zonedFormat = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23", timeZoneName: "short",
});

// zoned writes a time with its date and time zone, for texts that are read later or elsewhere.
export const zoned = (at) => zonedFormat.format(new Date(at));

// setText changes a node only if its text differs.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// copy puts a text on the clipboard of the system, also in a page that came without TLS.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const was = document.activeElement, field = el("textarea", { class: "unseen", "aria-hidden": "true" }, text);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    was?.focus({ preventScroll: true });
  }
}

// speak has screen readers read a text out. It replaces a text that they have not begun to read.
export const speak = (text) => setText($("spoken"), text);

// clientsText describes the clients of a key, or returns "" if they are not known.
export function clientsText({ clients, heaviest_client: client, client_share: part }) {
  if (!clients) return "";
  client = client && plainKey(client); // may be a name that a stranger chose
  if (clients === 1) return client ? `1 client, ${client}` : "1 client";
  const count = `${clients < 32 ? "" : "about "}${whole.format(clients)} clients`;
  return client ? `${count}, ${percent(part)} by ${client}` : count;
}

// percent writes a fraction as a percentage.
export const percent = (part) => `${fine.format(100 * (part ?? 0))} %`;

// limitText writes a limit in short: of an adaptive limit the rate in force.
export const limitText = (l) =>
  (l.adaptive && l.window_ms > 0 ? `${rate(l.limit / (l.window_ms / 1000))}/s adaptive` : l.text);

// scheduleText describes the schedule of an override, or returns "" if it has no schedule.
export function scheduleText(s) {
  return s ? `${s.from} for ${s.for} (${s.zone || "UTC"})` : "";
}

// reachText describes the keys that an override would hold now, and the server's warnings about it.
export function reachText({ reach, warnings = [] }) {
  const keys = reach?.keys === 1 ? plainKey(reach.examples[0]) : reach && `${count(reach.keys)} keys`;
  const pace = reach && `${rate(reach.requests_per_second)} requests a second`;
  const held = reach?.keys > 0 ? `Now it would hold ${keys}, ${pace}.` : "";
  return [held, warnings.length > 0 && `Mind: ${warnings.map(plainKey).join("; ")}.`].filter(Boolean).join(" ");
}

// overrideText describes the effect of an override, in shadow mode the effect that it would have.
export const overrideText = (o) => (o.mode === "shadow" ? "in shadow: " : "") + effectText(o);

function effectText(o) {
  switch (o.action) {
    case "limit": return limitOfText(o, costOfTarget(o));
    case "block": return "block";
    case "exempt": return "exempt";
    case "shadow": return "watch only";
    case "cache": return "from the cache";
  }
  return o.action;
}

function limitOfText({ rate: n, burst }, cost) {
  const pace = cost ? costRate(n, cost) : `${fine.format(n)}/s`;
  const most = cost ? costRate(burst / countsOf(cost), cost).slice(0, -"/s".length) : whole.format(burst);
  return `limit ${pace}${burst ? `, burst ${most}` : ""}`;
}

// decoded returns a path as text; bytes that are not text become replacement characters.
export function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    const byte = (all, hex) => (hex ? String.fromCharCode(parseInt(hex, 16)) : all);
    const bytes = path.replace(/%([0-9a-f]{2})|[^%]/gi, byte);
    return new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
  }
}

// otherThan returns a warning if the server's answer is about another key or client than name, the percent-encoded name
// that was asked for, or "" if it is not. Bytes that are not text are not compared.
export function otherThan(name, { asked }) {
  const text = (t) => t.replaceAll("\uFFFD", "");
  if (asked == null || text(asked) === text(decoded(name))) return "";
  const why = "a gateway on the way changes addresses. Nothing can be done here.";
  return `The server was asked about ${plainKey(asked)}: ${why}`;
}
