// Dialog: where a person sets an override. It resolves nothing itself: save
// sends it, and what the server finds wrong is shown at the field.

import { limitOf, me, tryOverride } from "./api.js";
import { $, el, plainKey, problemText, reachText, setText, targetNode, targetOf } from "./text.js";

const notes = {
  limit: "Holds whether or not the key is hot, in place of the rule's limit.",
  block: "Every request for it is denied.",
  exempt: "No limit holds it, not even those of a client's address.",
  shadow: "The rule's limit only counts what it would have denied.",
};

// Actions that shadow mode is for.
const tried = ["limit", "block"];

// A target's kind, what its field is to hold.
const hints = {
  key: "As the table shows it, or a pattern: topic?id=*",
  resource: "The name of a rule, or a path that the catch-all counts: every key of it",
  client: "One address", cidr: "A network such as 203.0.113.0/24: each of its clients by itself",
  class: "The name of a class: each of its clients by itself",
};

const resource = /^(\/|[a-z][a-z0-9_-]*$)/;
const ipv4 = /^(0|[1-9]\d*)(\.(0|[1-9]\d*)){3}$/;
const isAddress = (text) => (text.includes(":") ? URL.canParse(`http://[${text}]`)
  : ipv4.test(text) && URL.canParse(`http://${text}`));

// whole says of a target, by its kind, whether it is more than the beginning of one.
const whole = {
  key: (text) => /\*|^!hp1:/.test(text) || resource.test(text.split("?")[0]),
  resource: (text) => resource.test(text) && !text.includes("?"),
  client: isAddress,
  cidr: (text) => {
    const [, address, length] = text.match(/^(.*)\/(0|[1-9]\d?)$/) ?? [];
    return length <= (text.includes(":") ? 64 : 32) && isAddress(address);
  },
  class: (text) => resource.test(text) && !text.includes("/"),
};

const fields = ["key", "rate", "burst", "for", "schedule", "reason", "author"];

export class OverrideDialog {
  #dialog; #form; #save; #of = {}; #timer = 0; #asked = 0;

  // save(override, {id, version, row}) sends it, in the place of what was opened; it throws a Problem.
  constructor(dialog, save) {
    this.#dialog = dialog;
    this.#form = dialog.querySelector("form");
    this.#save = save;
    this.#form.addEventListener("submit", (e) => { e.preventDefault(); this.#submit(); });
    this.#form.addEventListener("change", (e) => {
      if (e.target.name === "action" || e.target.name === "kind") this.#showAction();
    });
    this.#form.addEventListener("input", () => this.#soon());
    dialog.addEventListener("close", () => this.#forget());
    dialog.querySelector("#dialog-cancel").addEventListener("click", () => dialog.close());
  }

  // open asks about a key, or about any when there is none. Values are those to
  // begin with; with an id that override is changed, and row names the list that it was opened from.
  open(about) {
    const { id = "", version, row = "", action = "limit", rate = "", burst = "", mode = "" } = about;
    const { reason = "", schedule = null, until = "" } = about;
    const { kind, value } = targetOf(about);
    const of = value ? [" of ", targetNode(about)] : [];
    $("dialog-title").replaceChildren(id ? "Override" : "New override", ...of);
    this.#clearErrors();
    this.#form.reset();
    const f = this.#form.elements;
    // Bytes that are not text cannot be sent: a pattern can stand for them.
    f.kind.value = kind;
    f.key.value = value.replace(/\uFFFD+/g, "*");
    f.key.readOnly = value !== "" && !value.includes("\uFFFD");
    f.kind.disabled = f.key.readOnly;
    f.action.value = action;
    f.rate.value = rate;
    f.burst.value = burst;
    f.mode.value = mode;
    f.reason.value = reason;
    this.#of = { id, version, row: f.key.readOnly ? row : "" };
    f.schedule.value = schedule?.from ?? "";
    f.lasts.value = schedule?.for ?? "";
    f.zone.value = schedule?.zone ?? "";
    // One with a schedule is mostly meant to come again, and one without an end to stay.
    if (schedule || (id && !until)) f.for.value = "";
    this.#dialog.querySelector("#schedule-fields").open = schedule != null;
    f.author.value = me.get();
    this.#showAction();
    this.#forget();
    this.#soon();
    this.#dialog.showModal();
    (f.key.readOnly ? action === "limit" ? f.rate : f.reason : f.key).focus();
  }

  #forget() {
    clearTimeout(this.#timer);
    this.#asked++;
    setText(this.#dialog.querySelector("#dialog-reach"), "");
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#try(), 250);
  }

  // try asks which keys the override would hold, and whether its limit is above the one in force. What is not written
  // whole yet is no error before it is sent.
  async #try() {
    const f = this.#form.elements, asked = ++this.#asked, target = f.key.value.trim();
    const what = { [f.kind.value]: target, action: f.action.value };
    let text = "";
    try {
      if (what.action === "limit") Object.assign(what, tryableLimit(f));
      if (whole[f.kind.value](target)) text = reachText(await tryOverride(what));
    } catch { /* said when it is sent */ }
    if (asked === this.#asked) setText(this.#dialog.querySelector("#dialog-reach"), text);
  }

  #showAction() {
    const action = this.#form.elements.action.value;
    this.#dialog.querySelector("#limit-fields").hidden = action !== "limit";
    this.#dialog.querySelector("#mode-field").hidden = !tried.includes(action);
    setText(this.#dialog.querySelector("#action-note"), notes[action]);
    setText(this.#dialog.querySelector("#h-key"), hints[this.#form.elements.kind.value]);
  }

  async #submit() {
    this.#clearErrors();
    const button = this.#dialog.querySelector("#dialog-save");
    button.disabled = true;
    try {
      const override = this.#read();
      // In shadow mode, or with a schedule, it stands beside the override that was seen.
      const beside = !this.#of.id && (override.mode || override.schedule);
      await this.#save(override, beside ? { ...this.#of, version: undefined } : this.#of);
      me.set(override.author ?? "");
      this.#dialog.close();
    } catch (problem) {
      // What the person was told of may be set all the same.
      if (problem.field === "row") [this.#of.row, problem.remedy] = ["", "set it again if it is meant all the same"];
      this.#error(problem.field, problemText(problem));
    } finally {
      button.disabled = false;
    }
  }

  // read makes the body of the request; only numbers are checked here, the rest
  // is the server's to judge.
  #read() {
    const f = this.#form.elements;
    const out = { [f.kind.value]: f.key.value.trim(), action: f.action.value };
    if (out.action === "limit") Object.assign(out, limitOf({ rate: f.rate.value, burst: f.burst.value }));
    if (tried.includes(out.action) && f.mode.value) out.mode = f.mode.value;
    for (const name of ["for", "reason", "author"]) {
      const text = f[name].value.trim();
      if (text) out[name] = text;
    }
    const [from, lasts, zone] = ["schedule", "lasts", "zone"].map((name) => f[name].value.trim());
    if (from || lasts) out.schedule = { from, for: lasts, ...(zone && { zone }) };
    return out;
  }

  #error(field, text) {
    if (field in hints) field = "key";
    const known = fields.includes(field);
    const place = this.#dialog.querySelector(known ? `#e-${field}` : "#e-form");
    place.hidden = false;
    setText(place, text);
    if (!known) return;
    const input = this.#form.elements[field];
    input.closest("details")?.setAttribute("open", "");
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  #clearErrors() {
    for (const place of this.#dialog.querySelectorAll(".error")) {
      place.hidden = true;
      place.textContent = "";
    }
    for (const input of this.#dialog.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }
}

// tryableLimit is the limit as far as it is written: the reach of an override does not depend on its number.
function tryableLimit({ rate, burst }) {
  try {
    return limitOf({ rate: rate.value, burst: burst.value });
  } catch {
    return { rate: 1e-6 };
  }
}

// secondWord makes a change by act(confirm). What the server refuses because it reaches much is made once its number
// was typed.
export async function secondWord(act) {
  try {
    return await act(false);
  } catch (problem) {
    if (problem.field !== "confirm" || !(await typed(problem))) throw problem;
    return act(true);
  }
}

function typed({ message, number: word }) {
  const dialog = $("second"), number = $("second-number"), wrong = $("second-error");
  // What is taken away comes a line each.
  $("second-why").replaceChildren(...message.split("\n").map((line) => el("span", { class: "line" }, plainKey(line))));
  setText($("second-label"), `Type ${word} to do it all the same`);
  number.value = "";
  wrong.hidden = true;
  dialog.showModal();
  number.focus();
  return new Promise((resolve) => {
    const events = new AbortController(), once = { signal: events.signal };
    const end = (yes) => {
      events.abort();
      dialog.close();
      resolve(yes);
    };
    dialog.addEventListener("cancel", () => end(false), once);
    $("second-cancel").addEventListener("click", () => end(false), once);
    dialog.querySelector("form").addEventListener("submit", (e) => {
      e.preventDefault();
      if (number.value.trim() === String(word)) return end(true);
      wrong.hidden = false;
      setText(wrong, `That is not ${word}.`);
      return number.focus();
    }, once);
  });
}
