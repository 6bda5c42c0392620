// Dialog: the form in which a person sets an override. It judges nothing itself: save sends the override, and errors
// that the server finds are shown at their fields.

import { limitOf, me, tryOverride } from "./api.js";
import {
  $, costOfTarget, countsOf, el, plainKey, problemText, reachText, setText, targetNode, targetOf, unitName,
} from "./text.js";

const notes = {
  limit: "Applies in place of the rule's limit, whether or not the key is hot.",
  block: "Every request is denied.",
  exempt: "No limit applies, not even limits per address.",
  shadow: "The rule's limit only counts would-be denials.",
};

// The actions that have a shadow mode.
const tried = ["limit", "block"];

// A hint for the target's field, by the target's kind.
const hints = {
  key: "A key as in the table, or a pattern: topic?id=*",
  resource: "The name of a rule, or a path that the catch-all counts: every key of it",
  client: "One address", cidr: "A network such as 203.0.113.0/24: each of its clients by itself",
  class: "The name of a class: each of its clients by itself",
};

const resource = /^(\/|[a-z][a-z0-9_-]*$)/;
const ipv4 = /^(0|[1-9]\d*)(\.(0|[1-9]\d*)){3}$/;
const isAddress = (text) => (text.includes(":") ? URL.canParse(`http://[${text}]`)
  : ipv4.test(text) && URL.canParse(`http://${text}`));

// whole reports, by the target's kind, whether a text is a whole target and not only its beginning.
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

  // save(override, {id, version, row}) sends override in place of the override that was opened; it throws a Problem.
  constructor(dialog, save) {
    this.#dialog = dialog;
    this.#form = dialog.querySelector("form");
    this.#save = save;
    this.#form.addEventListener("submit", (e) => { e.preventDefault(); this.#submit(); });
    this.#form.addEventListener("change", (e) => {
      if (e.target.name === "action" || e.target.name === "kind") this.#showAction();
    });
    this.#form.addEventListener("input", () => {
      this.#showUnit();
      this.#soon();
    });
    dialog.addEventListener("close", () => this.#forget());
    dialog.querySelector("#dialog-cancel").addEventListener("click", () => dialog.close());
  }

  // open asks about the target of about, or about any target if about has none. The other values fill the form. With an
  // id the dialog changes that override; row names the list that the dialog was opened from.
  open(about) {
    const { id = "", version, row = "", action = "limit", rate = "", burst = "", mode = "" } = about;
    const { reason = "", schedule = null, until = "" } = about;
    const { kind, value } = targetOf(about);
    const of = value ? [" of ", targetNode(about)] : [];
    $("dialog-title").replaceChildren(id ? "Override" : "New override", ...of);
    this.#clearErrors();
    this.#form.reset();
    const f = this.#form.elements;
    // Bytes that are not text cannot be sent; a pattern can stand for them.
    f.kind.value = kind;
    f.key.value = value.replace(/\uFFFD+/g, "*");
    f.key.readOnly = value !== "" && !value.includes("\uFFFD");
    f.kind.disabled = f.key.readOnly;
    f.action.value = action;
    f.rate.value = rate;
    f.burst.value = burst && burst / countsOf(costOfTarget(about));
    f.mode.value = mode;
    f.reason.value = reason;
    this.#of = { id, version, row: f.key.readOnly ? row : "" };
    f.schedule.value = schedule?.from ?? "";
    f.lasts.value = schedule?.for ?? "";
    f.zone.value = schedule?.zone ?? "";
    // An override with a schedule is mostly meant to recur, and an override without an end to stay.
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

  // try asks which keys the override would hold, and whether its limit is above the limit in force. A field that is not
  // complete yet is not reported as an error before the override is sent.
  async #try() {
    const f = this.#form.elements, asked = ++this.#asked, target = f.key.value.trim();
    const what = { [f.kind.value]: target, action: f.action.value };
    let text = "";
    try {
      if (what.action === "limit") Object.assign(what, tryableLimit(f, countsOf(this.#cost())));
      if (whole[f.kind.value](target)) text = reachText(await tryOverride(what));
    } catch { /* said when it is sent */ }
    if (asked === this.#asked) setText(this.#dialog.querySelector("#dialog-reach"), text);
  }

  // cost returns the cost of the rule that counts the target as typed.
  #cost() {
    const { kind, key } = this.#form.elements;
    return costOfTarget({ [kind.value]: key.value.trim() });
  }

  #showUnit() {
    const cost = this.#cost();
    setText($("l-rate"), `${unitName(cost)} per second`);
    setText($("l-burst"), cost ? `, ${unitName(cost).toLowerCase()}` : "");
  }

  #showAction() {
    this.#showUnit();
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
      // An override in shadow mode or with a schedule is stored beside the override that was seen.
      const beside = !this.#of.id && (override.mode || override.schedule);
      await this.#save(override, beside ? { ...this.#of, version: undefined } : this.#of);
      me.set(override.author ?? "");
      this.#dialog.close();
    } catch (problem) {
      // The person now knows that the target left the list, so the next save goes without row and is accepted.
      if (problem.field === "row") [this.#of.row, problem.remedy] = ["", "set it again to confirm"];
      this.#error(problem.field, problemText(problem));
    } finally {
      button.disabled = false;
    }
  }

  // read returns the body of the request. It checks only numbers; the server judges the rest.
  #read() {
    const f = this.#form.elements;
    const out = { [f.kind.value]: f.key.value.trim(), action: f.action.value };
    if (out.action === "limit") Object.assign(out, limitOf(typedLimit(f), countsOf(this.#cost())));
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

const typedLimit = ({ rate, burst }) => ({ rate: rate.value, burst: burst.value });

// tryableLimit returns the limit as far as it is typed, because the reach of an override does not depend on its number.
function tryableLimit(fields, counts) {
  try {
    return limitOf(typedLimit(fields), counts);
  } catch {
    return { rate: 1e-6 };
  }
}

// secondWord makes a change by act(confirm). If the server refuses the change because it reaches much, the change is
// made once the person has typed its number.
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
  // Each effect of the change has a line of its own.
  $("second-why").replaceChildren(...message.split("\n").map((line) => el("span", { class: "line" }, plainKey(line))));
  setText($("second-label"), `Type ${word} to confirm`);
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
