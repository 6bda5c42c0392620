// What if: a limit that a person moves. The server tries it on the last five minutes of a key, and the person sets it
// as an override, at once or first in shadow mode.

import { getJSON, inQuery, limitOf, me } from "./api.js";
import { $, costRate, count, countsOf, percent, plainKey, problemText, setText, unitName } from "./text.js";

// The slider is logarithmic: its steps 0 to 100 are a hundredth to a hundred times the limit that it begins with.
const rateOf = (step, begin) => Number((begin * 10 ** ((step - 50) / 25)).toPrecision(2));
const stepOf = (rate, begin) => Math.max(0, Math.min(100, 50 + 25 * Math.log10(rate / begin)));

// inForce describes the limit in force, which the limit that is tried would replace.
const inForce = (l) => (l ? ` In force now: ${l.text}${l.adaptive ? "; an override would replace it" : ""}.` : "");

// notTried names limits that may deny some of the requests first.
const notTried = (list) => (list.length > 0 ? ` Not tried: ${list.map(plainKey).join(", ")}.` : "");

export class WhatIf {
  #path = ""; #key = null; #timer = 0; #asked = 0; #begin = 1; #cost = "";

  // apply(override) sets the override, and throws a Problem.
  constructor(apply) {
    $("w-slider").addEventListener("input", () => {
      $("w-rate").value = rateOf($("w-slider").value, this.#begin);
      this.#soon();
    });
    $("w-rate").addEventListener("input", () => this.#soon());
    $("w-burst").addEventListener("input", () => this.#soon());
    $("what-if").addEventListener("submit", async (e) => {
      e.preventDefault();
      try {
        const reason = "tried on the last five minutes";
        const override = { key: this.#key, action: "limit", ...this.#typed(), reason };
        if (e.submitter === $("w-shadow")) override.mode = "shadow";
        if ($("w-for").value) override.for = $("w-for").value;
        if (me.get()) override.author = me.get();
        await apply(override);
      } catch (problem) {
        this.#wrong(problem);
      }
    });
  }

  // begin takes the key of a view and the limit to begin with, whose burst is as the API has it; path is the key as in
  // the address.
  begin(path, key, { rate, burst, cost }) {
    [this.#path, this.#key, this.#begin, this.#cost] = [path, key, rate, cost];
    setText($("w-unit"), `${unitName(cost)} per second`);
    setText($("w-burst-unit"), cost ? `, ${unitName(cost).toLowerCase()}` : "");
    $("w-rate").value = Number(rate.toPrecision(3));
    $("w-burst").value = burst ? burst / countsOf(cost) : "";
    this.#moveSlider();
    this.#try();
  }

  // moveSlider moves the slider to the rate that is typed.
  #moveSlider() {
    const rate = Number($("w-rate").value);
    if (document.activeElement !== $("w-slider")) $("w-slider").value = stepOf(rate, this.#begin);
    $("w-slider").setAttribute("aria-valuetext", costRate(rate, this.#cost));
  }

  writable(yes) { $("w-apply").hidden = $("w-shadow").hidden = !yes; }

  #soon() {
    this.#moveSlider();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#try(), 150);
  }

  // try asks the server. It does not show a response whose question is no longer the latest.
  async #try() {
    const asked = ++this.#asked;
    try {
      const a = await getJSON(`/v1/key/what-if?key=${inQuery(this.#path)}&${new URLSearchParams(this.#typed())}`);
      if (asked === this.#asked) this.#show(a);
    } catch (problem) {
      if (asked === this.#asked) this.#wrong(problem);
    }
  }

  #typed() { return limitOf({ rate: $("w-rate").value, burst: $("w-burst").value }, countsOf(this.#cost)); }

  #show(a) {
    const part = a.requests > 0 ? a.denied / a.requests : 0;
    $("w-meter").value = part;
    setText($("w-result"), a.requests === 0
      ? "No requests of this key are known in the last five minutes."
      : `Of ${count(a.requests)} requests this would have denied ${count(a.denied)} (${percent(part)}); ` +
        `${count(a.was_denied)} were denied.${inForce(a.in_force)}${notTried(a.not_tried)}`);
    for (const id of ["w-rate", "w-burst"]) $(id).removeAttribute("aria-invalid");
  }

  #wrong(problem) {
    setText($("w-result"), problemText(problem));
    if (problem.field !== "rate" && problem.field !== "burst") return;
    $(`w-${problem.field}`).setAttribute("aria-invalid", "true");
  }
}
