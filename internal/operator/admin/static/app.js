// App: joins the live stream to what is on the page.

import { at, deleteOverride, putOverride, undoOverride } from "./api.js";
import { Chart } from "./chart.js";
import { OverrideDialog } from "./dialog.js";
import { Feed, OverrideList } from "./feed.js";
import { HotTable, LoopTable } from "./hot.js";
import { follow } from "./stream.js";
import { clock, el, keyNode, overrideText, rate, setText } from "./text.js";

const $ = (id) => document.getElementById(id);

let writable = false, alive = false, latest = null;

const chart = new Chart($("chart"), $("chart-tip"));
const feed = new Feed($("events"), $("events-empty"));
const hot = new HotTable($("hot"), actOnHot);
const loops = new LoopTable($("loops"));
const overrides = new OverrideList($("overrides"), $("overrides-empty"), actOnOverride);
const dialog = new OverrideDialog($("dialog"), async (override, id) => {
  const saved = await putOverride(override, id);
  const doubt = saved.warnings?.length ? " " + saved.warnings.join("; ") : "";
  toast(["Set ", keyNode(saved.key), ` to ${overrideText(saved)}.${doubt}`], saved.id);
});

$("add-override").addEventListener("click", () => dialog.open({}));

follow(at("/v1/events"), {
  hello(h) {
    writable = h.writable;
    $("add-override").hidden = !writable;
    setText($("namespace"), h.namespace);
    setText($("version"), h.version ? `hotparam ${h.version}` : "hotparam");
    document.title = h.namespace ? `hotparam · ${h.namespace}` : "hotparam";
    chart.set(h.history);
    hot.seed(h.sparks);
    feed.reset(h.changes);
    overrides.show(h.overrides, writable);
    show(h.state);
  },
  state(s) {
    const t = s.totals;
    if (t.allowed_per_second != null) chart.add({ at: s.at, allowed: t.allowed_per_second, denied: t.denied_per_second });
    hot.tick(s.hot);
    show(s);
  },
  change: (c) => feed.add(c),
  overrides: (list) => overrides.show(list, writable),
  alive(yes) {
    if (alive === yes && latest) return;
    alive = yes;
    showLine();
  },
});

function show(s) {
  latest = s;
  const t = s.totals;
  setText($("requests"), rate(t.requests_per_second));
  setText($("allowed"), rate(t.allowed_per_second));
  setText($("denied"), rate(t.denied_per_second));
  setText($("hot-count"), rate(t.hot_keys));
  setText($("requests-note"), t.requests_per_second == null ? "no limiter has reported yet" : t.limiters === 1 ? "by 1 limiter" : `by ${t.limiters} limiters`);
  setText($("allowed-note"), share(t.allowed_per_second, t.requests_per_second));
  setText($("denied-note"), deniedBy(t));
  setText($("hot-note"), [t.hot_keys === 0 ? "all is calm" : t.hot_keys === 1 ? "1 value over its threshold" : "values over their threshold", t.loops && (t.loops === 1 ? "1 loop" : `${t.loops} loops`)].filter(Boolean).join(" · "));
  hot.show(s, writable);
  loops.show(s);
  const list = $("trouble");
  list.hidden = s.trouble.length === 0;
  list.replaceChildren(...s.trouble.map((text) => el("li", {}, text)));
  showLine();
}

const share = (part, all) => (all > 0 ? `${((100 * part) / all).toFixed(part === all ? 0 : 1)} % of requests` : "");

const reasons = { hot: "hot keys", fair: "over their share", in_flight: "in flight", ip_in_flight: "in flight per address", override: "overrides", blocked: "blocked", malformed: "malformed", ip_fixed: "per address", ip_sliding: "per address, long", store_failure: "store down" };

function deniedBy(t) {
  const parts = Object.entries(t.denied_by ?? {}).filter(([, n]) => n >= 0.05).sort((a, b) => b[1] - a[1]);
  if (parts.length === 0) return t.requests_per_second == null ? "" : "nothing is denied";
  return parts.slice(0, 3).map(([name, n]) => `${rate(n)} ${reasons[name] ?? name}`).join(" · ");
}

// showLine writes the status line, and the banner when the server is gone.
function showLine() {
  const pill = (name, value, good) =>
    el("li", { class: good ? "good" : "poor" }, el("span", { class: "dot", "aria-hidden": "true" }), name, value ? el("b", {}, " ", value) : "");
  const items = alive ? (latest?.status ?? []).map((s) => pill(s.name, s.value, s.ok)) : [];
  $("status").replaceChildren(pill(alive ? "live" : "reconnecting", "", alive), ...items);
  document.body.classList.toggle("stale", !alive && latest != null);
  const banner = $("banner");
  banner.hidden = alive || latest == null;
  if (!banner.hidden) setText(banner, `The connection to the server is lost; trying again. What you see is of ${clock(latest.at)}.`);
}

function actOnHot(kind, h) {
  if (kind === "clear") return remove(h.override);
  const o = h.override?.source === "live" ? h.override : null;
  // To begin with: the limit that holds, or where there is none, half of what
  // comes, which bites.
  const perSecond = o?.rate || (h.limit?.limit ? h.limit.limit / (h.limit.window_ms / 1000) : Math.ceil(h.rate / 2));
  dialog.open({ key: h.key, action: kind, rate: kind === "limit" ? perSecond : "", burst: kind === "limit" ? o?.burst || h.limit?.burst || "" : "", reason: o?.reason });
}

function actOnOverride(kind, o) {
  if (kind === "edit") return dialog.open(o);
  if (kind === "remove") return remove(o);
  return undo(o.id);
}

async function remove(o) {
  try {
    await deleteOverride(o.id);
    toast(["Removed the override of ", keyNode(o.key), "."], o.id);
  } catch (problem) {
    toast([problem.message]);
  }
}

async function undo(id) {
  try {
    const { override } = await undoOverride(id);
    toast(override ? ["Undone: ", keyNode(override.key), ` is back to ${overrideText(override)}.`] : ["Undone: the override is gone."]);
  } catch (problem) {
    toast([problem.message]);
  }
}

let toastTimer = 0;

// toast tells what was done, for ten seconds, with a way back if there is one.
function toast(parts, undoID) {
  clearTimeout(toastTimer);
  const node = $("toast");
  const back = undoID ? [el("button", { type: "button", class: "small", id: "toast-undo", onclick: () => undo(undoID) }, "Undo")] : [];
  node.replaceChildren(el("span", {}, ...parts), ...back);
  node.hidden = false;
  toastTimer = setTimeout(() => { node.hidden = true; }, 10_000);
}

showLine();
