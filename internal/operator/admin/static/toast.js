// Toast: shows for ten seconds that something was done, with a button to undo it if that is possible. It stays while it
// has the focus or the pointer, and the next press of Tab reaches its button from anywhere.

import { el } from "./text.js";

const lasts = 10_000;

export class Toast {
  #node; #timer = 0; #from = null; #offered = false;

  constructor(node) {
    this.#node = node;
    for (const event of ["focusout", "pointerleave"]) node.addEventListener(event, () => this.#wait());
    for (const event of ["focusin", "pointerenter"]) node.addEventListener(event, () => clearTimeout(this.#timer));
    document.addEventListener("keydown", (e) => this.#key(e));
  }

  // show replaces the message. undo takes the change back, or is undefined if it cannot be taken back.
  show(parts, undo) {
    const inside = this.#node.contains(document.activeElement);
    const button = undo && el("button", { type: "button", class: "small", id: "toast-undo", onclick: undo }, "Undo");
    this.#node.replaceChildren(el("span", {}, ...parts), ...(button ? [button] : []));
    this.#node.hidden = false;
    this.#offered = button !== undefined;
    if (inside && this.#from?.isConnected) this.#from.focus({ preventScroll: true });
    this.#wait();
  }

  // focus moves the focus to the button that undoes, as the next Tab would.
  focus() {
    this.#from = document.activeElement;
    this.#offered = false;
    this.#node.querySelector("button")?.focus();
  }

  #wait() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#node.matches(":hover, :focus-within")) return;
      this.#node.hidden = true;
    }, lasts);
  }

  // key moves the focus to the button at the first Tab after a change, and back to its former place at the Tab or
  // Escape that leaves the button.
  #key(e) {
    if (this.#node.hidden || document.querySelector("dialog[open]") || e.ctrlKey || e.altKey || e.metaKey) return;
    const inside = this.#node.contains(document.activeElement);
    if (e.key === "Tab" && !inside && this.#offered && !e.shiftKey) {
      this.#from = document.activeElement;
      this.#offered = false;
      e.preventDefault();
      this.#node.querySelector("button").focus();
    } else if (inside && (e.key === "Tab" || e.key === "Escape")) {
      if (e.key === "Escape") this.#node.hidden = true;
      if (this.#from?.isConnected) this.#from.focus({ preventScroll: true });
      this.#from = null; // a later visit in the page's order goes on in that order
      if (e.key === "Escape" || e.shiftKey) e.preventDefault();
    }
  }
}
