// Feed: recent events, newest first.

import { clientsText, clock, costRate, count, el, keyNode, overrideText, plainKey, setText } from "./text.js";

const most = 60;

export class Feed {
  #list; #empty; #cut; #last = 0;

  // empty is shown while there is no event, and cut once there are more than the list keeps.
  constructor(list, empty, cut) {
    [this.#list, this.#empty, this.#cut] = [list, empty, cut];
  }

  // reset fills the list with the changes that a new stream begins with.
  reset(changes) {
    this.#list.replaceChildren();
    this.#last = 0;
    this.#cut.hidden = true;
    for (const c of changes) this.add(c);
  }

  add(change) {
    if (change.seq <= this.#last) return; // the hello had it too
    this.#last = change.seq;
    // The event that a key became hot arrives when that is noticed, but is listed at the time at which it began.
    const node = item(change), time = (li) => Date.parse(li.querySelector("time").dateTime);
    const older = [...this.#list.children].find((li) => time(li) <= time(node));
    this.#list.insertBefore(node, older ?? null);
    this.#empty.hidden = true;
    if (this.#list.children.length <= most) return;
    this.#list.lastChild.remove();
    this.#cut.hidden = false;
    const begin = clock(time(this.#list.lastChild));
    setText(this.#cut, `The newest ${most} events, back to ${begin}; History has older ones.`);
  }
}

// named writes whole keys in place of aliases, once a limiter has reported the keys of the aliases.
export function named(list, hot) {
  for (const h of hot) {
    if (!h.alias) continue;
    for (const node of list.querySelectorAll(`[data-alias="${CSS.escape(h.alias)}"]`)) node.replaceWith(keyNode(h.key));
  }
}

function feedKey(key) {
  const node = keyNode(key);
  if (key.startsWith("!hp1:")) node.dataset.alias = key;
  return node;
}

const words = {
  became_hot: "Became hot", cooled: "Cooled", became_loop: "A loop, not limited", ceased_loop: "Loop ended",
  override_put: "Override set", override_deleted: "Override removed", override_undone: "Override undone",
  override_began: "Override began by its schedule", override_ended: "Override ended by its schedule",
  history_purged: "History of a key purged",
};

export function item(c) {
  const about = [];
  if (c.kind === "became_hot" || c.kind === "became_loop") {
    about.push(costRate(c.rate, c.cost), c.rule && `rule ${plainKey(c.rule)}`, clientsText(c));
  }
  if (c.denied > 0) about.push(`${count(c.denied)} denied`);
  if (c.would_deny > 0) about.push(`${count(c.would_deny)} would be denied in shadow mode`);
  if (c.gone) about.push("it is gone");
  if (["override_put", "override_began", "override_undone"].includes(c.kind) && c.override && !c.gone) {
    about.push(overrideText(c.override), plainKey(c.override.reason ?? ""));
  }
  if (c.author) about.push(`by ${plainKey(c.author)}`);
  return el("li", { class: c.kind },
    el("time", { datetime: c.at }, clock(c.at)),
    el("div", {},
      el("p", {}, el("strong", {}, words[c.kind] ?? plainKey(c.kind)), " ",
        el("span", { class: "note" }, about.filter(Boolean).join(" · "))),
      el("p", {}, feedKey(c.key ?? ""))));
}
