// Still: lists hold still under a person. While the pointer or the focus is in a list, or a dialog is open, no row of
// the list appears, disappears or moves, and changes above the list do not push it.

import { count, setText } from "./text.js";

// isHeld reports whether a list is in use. Behind an open dialog every list holds still, so that the focus returns to
// the row from which the dialog was opened.
export const isHeld = (list) =>
  list.contains(document.activeElement) || list.matches(":hover") || document.querySelector("dialog[open]") !== null;

// keepingFocus runs draw. If that takes the focused element of a list away or hides it, the focus goes to the same
// button of its row, or if the row is gone to the next row, or to the row before; out of an empty list it goes to the
// view. Rows that are made again have the same data-id.
export function keepingFocus(list, draw) {
  const was = document.activeElement;
  const row = list.contains(was) ? [...list.children].find((r) => r.contains(was)) : null;
  const place = row ? [...list.children].indexOf(row) : -1;
  const done = draw();
  if (!row || (was.isConnected && was.checkVisibility())) return done;
  const rows = [...list.children], { id } = row.dataset;
  const same = row.isConnected ? row : id && rows.find((r) => r.dataset.id === id);
  const near = [...(same ? [same] : []), ...rows.slice(place), ...rows.slice(0, place).reverse()];
  const to = near.map((r) => controlOf(r, was.dataset.act)).find(Boolean) ?? list.closest(".view");
  to.focus({ preventScroll: to.matches(".view") });
  return done;
}

// controlOf returns the button of a row for an action, or another control, or undefined. Hidden controls do not count.
function controlOf(row, act) {
  const shown = [...row.querySelectorAll("button, a[href]")].filter((n) => n.checkVisibility());
  return shown.find((n) => act && n.dataset.act === act) ?? shown.find((n) => n.matches("button")) ?? shown[0];
}

// HeldList decides which items of a list are shown: the newest items, or while the list is held, the items that were
// shown before, with their present values.
export class HeldList {
  #list; #more; #idOf; #draw; #shown = []; #latest = [];

  // list is the element that is held, and more the button that offers the new list. draw(items, gone) fills the list;
  // gone holds the ids of the items that have left it.
  constructor(list, more, idOf, draw) {
    [this.#list, this.#more, this.#idOf, this.#draw] = [list, more, idOf, draw];
    list.dataset.still = "";
    more.addEventListener("click", () => {
      const used = document.activeElement === more;
      this.show(this.#latest, true);
      if (used) list.querySelector("a[href], button")?.focus({ preventScroll: true }); // more is hidden now
    });
  }

  // show takes the present items. With renew a held list shows them too, because a person asked for them.
  show(items, renew = false) {
    this.#latest = items;
    const gone = new Set();
    if (renew || this.#shown.length === 0 || !isHeld(this.#list)) {
      this.#shown = items;
      this.#more.hidden = true;
      return keepingFocus(this.#list, () => this.#draw(items, gone));
    }
    const now = new Map(items.map((item) => [this.#idOf(item), item]));
    const before = this.#shown.map(this.#idOf);
    this.#shown = this.#shown.map((item, i) => now.get(before[i]) ?? item);
    for (const id of before) if (!now.has(id)) gone.add(id);
    const changes = gone.size + (items.length - (before.length - gone.size));
    const moved = items.some((item, i) => this.#idOf(item) !== before[i]);
    setText(this.#more, changes > 0 ? `${count(changes)} ${changes === 1 ? "change" : "changes"}` : "New order");
    this.#more.hidden = !moved && changes === 0;
    return keepingFocus(this.#list, () => this.#draw(this.#shown, gone));
  }
}

// inUse returns the element of a held list that must not move: the element under the pointer, or else the element with
// the focus.
function inUse() {
  for (const at of [document.querySelector("[data-still]:hover"), document.activeElement?.closest("[data-still]")]) {
    if (at) return at.querySelector(":scope > :hover") ?? at.querySelector(":scope > :focus-within") ?? at;
  }
  return null;
}

let spare = 0; // pixels above the content that replace content which became shorter

// steady runs draw, and then scrolls by the distance that draw moved the element in use. If the page cannot be scrolled
// so far, the space above or below the content grows instead.
export function steady(draw) {
  const root = document.documentElement, main = document.querySelector("main"), at = inUse();
  root.classList.toggle("held", at !== null); // the browser's own anchoring would scroll a second time
  if (!at) {
    if (spare > 0) main.style.marginTop = "";
    spare = 0;
    document.body.style.minHeight = "";
    return draw();
  }
  const top = at.getBoundingClientRect().top;
  const done = draw();
  const moved = () => (at.isConnected ? Math.round(at.getBoundingClientRect().top - top) : 0);
  if (moved() !== 0) {
    const y = scrollY + moved();
    if (y + innerHeight > root.scrollHeight) document.body.style.minHeight = `${y + innerHeight}px`;
    scrollTo({ top: y, behavior: "instant" });
  }
  if (moved() !== 0) {
    spare = Math.max(0, spare - moved());
    main.style.marginTop = spare > 0 ? `${spare}px` : "";
  }
  return done;
}
