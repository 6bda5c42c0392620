// Keys: what single keys do, for people who work without a mouse. They do nothing in a field, in a dialog or together
// with a modifier, and a person can switch them off, because software that types for people may press them by mistake.

import { subject } from "./router.js";
import { $, copy, keyNode } from "./text.js";

const acts = { l: "limit", b: "block", x: "exempt", e: "enforce" };

export class Keys {
  #copied; #undo;

  // undo() offers to undo the person's last change, and copied(node) tells that the key which node shows was copied.
  constructor({ undo, copied }) {
    [this.#undo, this.#copied] = [undo, copied];
    document.addEventListener("keydown", (e) => this.#press(e));
    $("keys-open").addEventListener("click", () => this.#list());
    $("key-copy").addEventListener("click", () => this.#copy());
    $("keys-on").addEventListener("change", (e) => allow(e.target.checked));
  }

  #press(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || document.querySelector("dialog[open]")) return;
    // The field of a dialog that has just closed has the focus until the page is drawn again.
    if (e.target.closest?.("input, select, textarea")?.checkVisibility() || !allowed()) return;
    const view = document.querySelector(".view:not([hidden])");
    switch (e.key) {
      case "/": view.querySelector("input[type=search]")?.focus(); break;
      case "?": this.#list(); break;
      case "u": this.#undo(); break;
      case "c": this.#copy(); break;
      case "j": case "k": step(view, e.key === "j" ? 1 : -1); break;
      default:
        if (!(e.key in acts)) return;
        actIn(rowInUse(view) ?? view.querySelector(".head"), acts[e.key]);
    }
    e.preventDefault();
  }

  #list() {
    $("keys-on").checked = allowed();
    $("keys").showModal();
  }

  // copy copies the key of the row in use, or of the view. A key that is not text is copied percent-encoded.
  async #copy() {
    const row = rowInUse(document.querySelector(".view:not([hidden])"));
    const link = row?.querySelector("a[href*='/key']") ?? (row ? null : location);
    const path = link && subject("key", link);
    if (!path || (link === location && $("view-key").hidden)) return;
    let key = path;
    try {
      key = decodeURIComponent(path);
    } catch { /* it is copied as it is */ }
    await copy(key);
    this.#copied(keyNode(key));
  }
}

// rowInUse returns the row of a table that has the focus, or else the pointer.
const rowInUse = (view) => document.activeElement.closest("tbody tr") ?? view.querySelector("tbody tr:hover");

// step moves the focus to the next row of the tables of a view, or to the row before.
function step(view, by) {
  const rows = [...view.querySelectorAll("tbody tr")].filter((r) => r.checkVisibility());
  const at = rows.indexOf(document.activeElement.closest("tbody tr"));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by))];
  next?.querySelector("a[href], button")?.focus();
}

function actIn(place, act) {
  const button = [...place?.querySelectorAll(`[data-act=${act}]`) ?? []].find((n) => n.checkVisibility());
  button?.focus();
  button?.click();
}

const kept = "hotparam.keys";

function allowed() {
  try { return localStorage.getItem(kept) !== "off"; } catch { return true; }
}

function allow(yes) {
  try { localStorage.setItem(kept, yes ? "on" : "off"); } catch { /* private window: they stay as they are */ }
}
