// Webhooks: the receivers of events and their state, and a test of one or all of them by an admin. Rows stay as long as
// the page, because they read out the result of a test and the focus stays on their buttons.

import { getJSON, testWebhooks } from "./api.js";
import { clock, count, el, plainKey, problemText, setText } from "./text.js";

export class Webhooks {
  #list; #note; #all; #rows = new Map(); #testing = false; #refused = "";

  constructor(section) {
    this.#list = section.querySelector("ul");
    this.#note = section.querySelector("#webhooks-note");
    this.#all = section.querySelector("#webhooks-test");
    this.#all.addEventListener("click", () => this.#test(""));
  }

  async ask() {
    let webhooks;
    try {
      ({ webhooks } = await getJSON("/v1/notifications"));
    } catch (problem) {
      return setText(this.#note, problem.message);
    }
    this.#all.hidden = webhooks.length === 0;
    setText(this.#note, webhooks.length === 0 ? "none" : this.#refused);
    const known = [...this.#rows.keys()];
    if (known.join() !== webhooks.map((w) => w.name).join()) this.#make(webhooks); // the program has restarted
    for (const w of webhooks) this.#rows.get(w.name).fill(w);
    return undefined;
  }

  #make(webhooks) {
    this.#rows = new Map(webhooks.map((w) => [w.name, newRow(w, () => this.#test(w.name))]));
    this.#list.replaceChildren(...[...this.#rows.values()].map((r) => r.node));
  }

  // test sends a test event to a webhook, or to all if name is "". A receiver may take a minute to respond; until then
  // no other test is sent.
  async #test(name) {
    if (this.#testing) return;
    [this.#testing, this.#refused] = [true, ""];
    const rows = [...this.#rows].filter(([known]) => !name || known === name).map(([, row]) => row);
    for (const row of rows) row.tell("sending a test …");
    try {
      const { results } = await testWebhooks(name);
      for (const r of results) this.#rows.get(r.name)?.tell(resultText(r), r.ok);
    } catch (problem) {
      for (const row of rows) row.tell("");
      this.#refused = problemText(problem);
    } finally {
      this.#testing = false;
    }
    await this.ask();
  }
}

// resultText describes the result of a test. Its error may hold text of a receiver, such as the names of its
// certificate.
function resultText({ ok, status, error, took_ms: took }) {
  const time = `after ${Math.round(took)} ms`;
  return ok ? `test delivered: answered ${status} ${time}` : `test not delivered: ${plainKey(error)} ${time}`;
}

function newRow({ name }, test) {
  const about = el("span", { class: "about" }), result = el("span", { class: "result", role: "status" });
  const button = el("button", {
    type: "button", class: "small admins", "aria-label": `Send a test to ${name}`, onclick: test,
  }, "Test");
  const node = el("li", {},
    el("span", { class: "dot", "aria-hidden": "true" }), el("b", {}, name), about, result, button);
  const fill = (w) => {
    node.className = w.error || w.losing ? "poor" : "good";
    const lost = w.failed + w.dropped, last = w.last_loss ? `, last ${clock(w.last_loss)}` : "";
    setText(about, [
      w.format, `${count(w.sent)} sent`, lost > 0 && `${count(lost)} lost${last}`,
      w.queued > 0 && `${count(w.queued)} wait`,
      w.error && `failed at ${clock(w.last_attempt)}: ${plainKey(w.error)}`,
    ].filter(Boolean).join(" · "));
  };
  const tell = (text, ok) => {
    setText(result, text);
    result.className = `result ${ok === false ? "bad-result" : ""}`;
  };
  return { node, fill, tell };
}
