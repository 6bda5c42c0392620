// App: joins the live stream to the views, and a person's actions to the API.

import {
  deleteOverride, enforceOverride, follow, getJSON, inside, me, putOverride, setServerTime, undoOverride,
} from "./api.js";
import { OverrideDialog, secondWord } from "./dialog.js";
import { AuditView, lag } from "./audit.js";
import { ClientView } from "./client.js";
import { HistoryView } from "./history.js";
import { KeyView } from "./key.js";
import { Keys } from "./keys.js";
import { NowView } from "./now.js";
import { OverridesView, extended } from "./overrides.js";
import { RulesView } from "./rules.js";
import { Router } from "./router.js";
import { perSecond } from "./hot.js";
import { steady } from "./still.js";
import { Toast } from "./toast.js";
import { Verdict } from "./verdict.js";
import { $, clock, el, overrideText, plainKey, setCosts, setText, targetNode } from "./text.js";

let writable = false, alive = false, latest = null, refused = "";
let own = null; // the last change that was made on this page, and its description

const remember = (view) => (values) => router.remember(view, values);
const now = new NowView(actOnHot, remember(""));
const key = new KeyView(actOnHot, set, remember("key"));
const client = new ClientView(actOnHot);
const audit = new AuditView();
const notice = new Toast($("toast"));
const verdict = new Verdict((word) => router.title({ word }));
const overrides = new OverridesView($("view-overrides"), actOnOverride, {
  say: toast, remember: remember("overrides"),
});
const dialog = new OverrideDialog($("dialog"), set);
const past = new HistoryView((path) => router.open(inside(path)), remember("history"));
const rules = new RulesView(toast);
const router = new Router({
  "": { show: () => now.open() }, key, client, history: past, rules, audit,
  overrides: { show: () => overrides.open(), hide: () => overrides.close() },
});

new Keys({ copied: (name) => toast(["Copied ", name, "."]), undo: () => told(offerUndo) });
$("add-override").addEventListener("click", () => dialog.open({}));

follow("/v1/events", {
  hello(h) {
    setCosts(h.state.costs);
    document.body.classList.toggle("no-history", !h.history_kept);
    overrides.show(h.overrides, h.state.totals.overrides, writable);
    learnCaller(h);
    setText($("namespace"), h.namespace);
    setText($("version"), h.version ? `hotparam ${h.version}` : "hotparam");
    router.title({ namespace: h.namespace });
    now.hello(h, writable);
    past.present(h.overrides);
    show(h.state);
  },
  state: (s) => steady(() => {
    now.state(s, writable);
    show(s);
  }),
  change: (c) => now.change(c),
  overrides: (list) => steady(() => {
    overrides.show(list, overrides.total, writable);
    past.present(list);
  }),
  alive(yes) {
    if (alive === yes && latest) return;
    alive = yes;
    steady(showLine);
  },
  refused(why) {
    [alive, refused] = [false, why];
    steady(showLine);
  },
});

function show(s) {
  latest = s;
  setServerTime(s.at);
  setCosts(s.costs);
  audit.state(s);
  past.state(s);
  overrides.setTotal(s.totals.overrides);
  setText($("overrides-reach"), reach(s));
  const list = $("trouble");
  list.hidden = s.trouble.length === 0;
  list.replaceChildren(...s.trouble.map((text) => el("li", {}, text)));
  showLine();
}

// showLine writes the verdict and the status line, and the banner while the server cannot be reached.
function showLine() {
  if (alive && latest) verdict.show(latest);
  else if (latest || refused) verdict.lost(refused ? "signed out" : "connection lost");
  const pill = (name, value, good) =>
    el("li", { class: good ? "good" : latest ? "poor" : "" },
      el("span", { class: "dot", "aria-hidden": "true" }), name, value ? el("b", {}, " ", value) : "");
  const items = alive ? (latest?.status ?? []).map((s) => pill(s.name, s.value, s.ok)) : [];
  if (alive && latest?.lagging.length) {
    items.push(pill("limiters", `${latest.lagging.length} of ${latest.totals.limiters} lag`, false));
  }
  const state = alive ? "live" : refused ? "signed out" : latest ? "reconnecting" : "connecting";
  $("status").replaceChildren(pill(state, "", alive), ...items);
  document.body.classList.toggle("stale", !alive && latest != null);
  const banner = $("banner");
  banner.hidden = alive || (latest == null && !refused);
  if (banner.hidden) return;
  const lost = refused || "The connection to the server is lost; trying again.";
  const again = refused && el("button", { type: "button", class: "small", onclick: () => location.reload() },
    "Sign in again");
  const since = latest ? ` This page is of ${clock(latest.at)}. ` : " ";
  banner.replaceChildren(lost + since, again);
}

// offerChanges shows the controls that change something to callers who may use them.
function offerChanges() {
  $("add-override").hidden = $("import-label").hidden = !writable;
  key.writable(writable);
  client.writable(writable);
  overrides.show(overrides.list, overrides.total, writable); // writable may have changed since
  if (latest) now.offer(writable);
}

// learnCaller asks the server for the caller's role and name. A viewer is offered no changes, and a caller whose name
// is known need not type it. Changes are not offered before the role is known.
async function learnCaller(h) {
  let who = { role: "unknown" }; // the server refuses changes that are not allowed
  try {
    who = await getJSON("/v1/caller");
  } catch { /* asked again with the next stream */ }
  if (who.name) me.set(who.name);
  document.body.dataset.role = who.role;
  writable = h.writable && who.role !== "viewer";
  offerChanges();
}

// set stores an override in place of opened. The server refuses if the override was changed since it was opened,
// or if the target is no longer in row, the list that it was taken from.
async function set(override, opened = {}) {
  const saved = await secondWord((confirm) => putOverride(override, { ...opened, confirm }));
  const doubt = saved.warnings?.length ? " " + saved.warnings.join("; ") : "";
  toast(["Set ", targetNode(saved), ` to ${overrideText(saved)}.${doubt}`], changeOf(saved));
}

// changeOf names the change that the server has just made, so that it can be undone.
const changeOf = ({ id, change }) => ({ id, revision: change });

function reach({ totals, lagging }) {
  const late = lagging.slice(0, 5).map((l) => `${plainKey(l.instance)} ${lag(l)}`);
  if (late.length > 0) return `Not in every limiter: ${late.join(", ")}.`;
  if (totals.limiters === 0) return "";
  return totals.limiters === 1 ? "The limiter has them." : `All ${totals.limiters} limiters have them.`;
}

function actOnHot(kind, h) { return told(() => changeHot(kind, h)); }

async function changeHot(kind, h) {
  if (kind === "clear") return remove(h.override);
  if (kind === "enforce") return enforce(h.tried);
  const limit = kind === "limit" && (h.client || h.cidr ? await clientLimit(h.client ?? h.cidr) : h.limit);
  const { client, cidr, key, row, override: o } = h;
  const reason = o?.source === "live" ? o.reason : "";
  // An override that a colleague sets from now on is not replaced.
  const version = key && await overrides.versionOf(key);
  const from = kind === "limit" ? proposal(h, limit) : {};
  return dialog.open({ client, cidr, key, row, version, reason, action: kind, ...from });
}

// proposal returns the limit that a dialog begins with: the limit in force, or if that has no rate, the limit of the
// rule or the rate from which the rule calls a key hot, unless that is of another cost than requests. The present rate
// of requests is not used, because it does not show the rate that should be allowed.
function proposal({ rule_limit: byRule, threshold, cost }, limit) {
  const from = [limit, byRule].find(perSecond);
  const rate = perSecond(from) ?? (cost ? 0 : threshold);
  return { rate: rate > 0 ? roundedDown(rate) : "", burst: from?.burst ?? "" };
}

// roundedDown keeps six digits of a rate, so that the number which a dialog shows is not above the limit in force.
function roundedDown(rate) {
  const unit = 10 ** (Math.floor(Math.log10(rate)) - 5);
  return Number((Math.floor(rate / unit + 1e-6) * unit).toPrecision(6));
}

// clientLimit returns the limit in force for a client, or for the clients of a network.
async function clientLimit(name) {
  try {
    return (await getJSON(`/v1/clients/${encodeURIComponent(name)}`)).limit;
  } catch {
    return null; // the person types the number
  }
}

function actOnOverride(kind, o) {
  switch (kind) {
    case "edit": return dialog.open(o);
    case "extend": return extend(o);
    case "remove": return remove(o);
    case "enforce": return enforce(o);
  }
  return undo({ id: o.id, version: o.version });
}

const extend = (o) => told(async () => {
  const saved = await secondWord((confirm) => putOverride(extended(o), { id: o.id, version: o.version, confirm }));
  toast([targetNode(saved), ` now holds until ${clock(saved.until)}.`], changeOf(saved));
});

const remove = (o) => told(async () => {
  const { change } = await deleteOverride(o);
  toast(["Removed the override of ", targetNode(o), "."], changeOf({ id: o.id, change }));
});

// enforce makes an override in shadow mode deny from now on.
const enforce = (o) => told(async () => {
  const saved = await secondWord((confirm) => enforceOverride(o, confirm));
  toast(["Enforced: ", targetNode(saved), `, ${overrideText(saved)}.`], changeOf(saved));
});

// undo takes back one change; see undoOverride.
const undo = (change) => told(async () => {
  const { override } = await secondWord((confirm) => undoOverride(change, confirm));
  if (!override) return toast(["Undone: the override is gone."]);
  return toast(["Undone: ", targetNode(override), ` is back to ${overrideText(override)}.`]);
});

async function told(act) {
  try {
    await act();
  } catch (problem) {
    toast([problem.message]);
  }
}

function toast(parts, change) {
  if (change) own = { parts, change };
  notice.show(parts, change && (() => undo(change)));
}

// offerUndo shows the person's own last change with a button to undo it. A person whose name is not known has only the
// changes that were made since the page was loaded.
async function offerUndo() {
  const name = me.get();
  const mine = name ? await lastChangeOf(name) : own;
  if (!mine) return toast(["You have changed nothing yet."]);
  toast(["Your last change: ", ...mine.parts], mine.change);
  return notice.focus();
}

async function lastChangeOf(author) {
  const { changes } = await getJSON("/v1/audit?limit=1000");
  const c = changes.find((other) => other.id && other.author === author);
  if (!c) return null;
  const what = [targetNode(c.after ?? c.before), `: ${c.after ? overrideText(c.after) : "removed"}, ${clock(c.at)}.`];
  return { parts: what, change: { id: c.id, revision: c.revision } };
}

showLine();
