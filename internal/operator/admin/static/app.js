// App: joins the live stream to the views, and what a person does to the API.

import { deleteOverride, enforceOverride, follow, getJSON, inside, me, putOverride, undoOverride } from "./api.js";
import { OverrideDialog, secondWord } from "./dialog.js";
import { AuditView, lag } from "./audit.js";
import { ClientView } from "./client.js";
import { HistoryView } from "./history.js";
import { KeyView } from "./key.js";
import { NowView } from "./now.js";
import { OverridesView, extended } from "./overrides.js";
import { RulesView } from "./rules.js";
import { Router } from "./router.js";
import { perSecond } from "./hot.js";
import { $, clock, el, overrideText, plainKey, setText, targetNode } from "./text.js";

let writable = false, alive = false, latest = null;

const now = new NowView(actOnHot);
const key = new KeyView(actOnHot, set);
const client = new ClientView(actOnHot);
const audit = new AuditView();
const overrides = new OverridesView($("view-overrides"), actOnOverride, toast);
const dialog = new OverrideDialog($("dialog"), set);
const past = new HistoryView((path) => router.open(inside(path)));
const rules = new RulesView(toast);
const router = new Router({
  "": {}, key, client, history: past, rules, audit,
  overrides: { show: () => overrides.open(), hide: () => overrides.close() },
});

$("add-override").addEventListener("click", () => dialog.open({}));

follow("/v1/events", {
  hello(h) {
    document.body.classList.toggle("no-history", !h.history_kept);
    overrides.show(h.overrides, writable);
    learnCaller(h);
    setText($("namespace"), h.namespace);
    setText($("version"), h.version ? `hotparam ${h.version}` : "hotparam");
    router.title(h.namespace);
    now.hello(h, writable);
    show(h.state);
  },
  state(s) {
    now.state(s, writable);
    show(s);
  },
  change: (c) => now.change(c),
  overrides: (list) => overrides.show(list, writable),
  alive(yes) {
    if (alive === yes && latest) return;
    alive = yes;
    showLine();
  },
});

function show(s) {
  latest = s;
  audit.state(s);
  past.state(s);
  setText($("overrides-reach"), reach(s));
  const list = $("trouble");
  list.hidden = s.trouble.length === 0;
  list.replaceChildren(...s.trouble.map((text) => el("li", {}, text)));
  showLine();
}

// showLine writes the status line, and the banner when the server is gone.
function showLine() {
  const pill = (name, value, good) =>
    el("li", { class: good ? "good" : latest ? "poor" : "" },
      el("span", { class: "dot", "aria-hidden": "true" }), name, value ? el("b", {}, " ", value) : "");
  const items = alive ? (latest?.status ?? []).map((s) => pill(s.name, s.value, s.ok)) : [];
  if (alive && latest?.lagging.length) {
    items.push(pill("limiters", `${latest.lagging.length} of ${latest.totals.limiters} lag`, false));
  }
  $("status").replaceChildren(pill(alive ? "live" : latest ? "reconnecting" : "connecting", "", alive), ...items);
  document.body.classList.toggle("stale", !alive && latest != null);
  const banner = $("banner");
  banner.hidden = alive || latest == null;
  if (banner.hidden) return;
  setText(banner, `The connection to the server is lost; trying again. What you see is of ${clock(latest.at)}.`);
}

// offerChanges shows what changes something to those who may.
function offerChanges() {
  $("add-override").hidden = $("import-label").hidden = !writable;
  key.writable(writable);
  client.writable(writable);
  overrides.show(overrides.list, writable); // it may have changed since
  if (latest) now.offer(writable);
}

// learnCaller asks who one is: a viewer is offered no change, and who is known by a
// name need not write it. Nothing is offered before that is known.
async function learnCaller(h) {
  let who = { role: "unknown" }; // the server refuses what is not allowed
  try {
    who = await getJSON("/v1/caller");
  } catch { /* asked again with the next stream */ }
  if (who.name) me.set(who.name);
  document.body.dataset.role = who.role;
  writable = h.writable && who.role !== "viewer";
  offerChanges();
}

async function set(override, id) {
  const saved = await secondWord((confirm) => putOverride(override, id, confirm));
  const doubt = saved.warnings?.length ? " " + saved.warnings.join("; ") : "";
  toast(["Set ", targetNode(saved), ` to ${overrideText(saved)}.${doubt}`], saved.id);
}

function reach({ totals, lagging }) {
  const late = lagging.slice(0, 5).map((l) => `${plainKey(l.instance)} ${lag(l)}`);
  if (late.length > 0) return `Not in every limiter: ${late.join(", ")}.`;
  if (totals.limiters === 0) return "";
  return totals.limiters === 1 ? "The limiter has them." : `All ${totals.limiters} limiters have them.`;
}

function actOnHot(kind, h) {
  if (kind === "clear") return remove(h.override);
  if (kind === "enforce") return enforce(h.tried);
  if (h.client || h.cidr) return dialog.open({ ...h, action: kind });
  const o = h.override?.source === "live" ? h.override : null;
  // To begin with: the limit that holds, or where there is none, half of what
  // comes, which bites.
  const rate = o?.rate || perSecond(h.limit) || Math.ceil(h.rate / 2);
  const limited = kind === "limit";
  const burst = o?.burst || h.limit?.burst || "";
  return dialog.open({
    key: h.key, action: kind, rate: limited ? rate : "", burst: limited ? burst : "", reason: o?.reason,
  });
}

function actOnOverride(kind, o) {
  switch (kind) {
    case "edit": return dialog.open(o);
    case "extend": return extend(o);
    case "remove": return remove(o);
    case "enforce": return enforce(o);
  }
  return undo(o.id);
}

const extend = (o) => told(async () => {
  const saved = await secondWord((confirm) => putOverride(extended(o), o.id, confirm));
  toast([targetNode(saved), ` now holds until ${clock(saved.until)}.`], saved.id);
});

const remove = (o) => told(async () => {
  await deleteOverride(o.id);
  toast(["Removed the override of ", targetNode(o), "."], o.id);
});

// enforce has an override in shadow mode deny from now on.
const enforce = (o) => told(async () => {
  const saved = await secondWord((confirm) => enforceOverride(o.id, confirm));
  toast(["Enforced: ", targetNode(saved), `, ${overrideText(saved)}.`], saved.id);
});

const undo = (id) => told(async () => {
  const { override } = await secondWord((confirm) => undoOverride(id, confirm));
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

let toastTimer = 0;

// toast tells what was done, for ten seconds, with a way back if there is one.
function toast(parts, undoID) {
  clearTimeout(toastTimer);
  const node = $("toast");
  const button = { type: "button", class: "small", id: "toast-undo", onclick: () => undo(undoID) };
  node.replaceChildren(el("span", {}, ...parts), ...(undoID ? [el("button", button, "Undo")] : []));
  node.hidden = false;
  toastTimer = setTimeout(() => { node.hidden = true; }, 10_000);
}

showLine();
