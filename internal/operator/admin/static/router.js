// Router: one page, with one view for each address. Links within the page change the address without loading anything,
// and back and forward work as usual.

import { outside } from "./api.js";
import { $ } from "./text.js";

export class Router {
  #views; #current = null; #name = ""; #word = ""; #path = "";

  // views are named by the first part of their path; each may have show(subject) and hide(). subject is the key or
  // client of the view, percent-encoded as in the address.
  constructor(views) {
    this.#views = views;
    // The links are relative to the address that the page was loaded from, and the address changes.
    for (const link of document.querySelectorAll("a[href^='.'], link[rel='icon']")) {
      const { pathname, search } = new URL(link.href);
      link.setAttribute("href", pathname + search);
    }
    // A link to a part of a view changes the address too, but not the view.
    addEventListener("popstate", () => {
      if (!location.hash || this.#path !== location.pathname + location.search) this.#go(true);
    });
    document.addEventListener("click", (e) => this.#click(e));
    this.#go(false);
  }

  open(path) {
    history.pushState(null, "", path);
    this.#go(true);
  }

  // remember puts values of a view into its address, so that a link shows a colleague the same and a reload keeps it. A
  // value "" is left out. It does nothing while another view is shown.
  remember(view, values) {
    if (view !== this.#current) return;
    const kept = location.search.slice(1).split("&").filter((part) => part && !(part.split("=")[0] in values));
    const added = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
    const search = [...kept, String(added)].filter(Boolean).join("&");
    try {
      history.replaceState(null, "", location.pathname + (search && `?${search}`) + location.hash);
    } catch { /* some browsers refuse a hundred changes in half a minute; the next one has all values */ }
    this.#path = location.pathname + location.search;
  }

  // title sets the title of the tab. It begins with a word about the site, and the view's own name.
  title({ word = this.#word, namespace }) {
    this.#word = word;
    if (namespace !== undefined) this.#name = namespace ? `hotparam · ${namespace}` : "hotparam";
    this.#head();
  }

  #click(e) {
    const link = e.target.closest?.("a[href]");
    if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    if (link.origin !== location.origin || link.hash || link.hasAttribute("download")) return;
    if (!this.#views[part(link.pathname)]) return;
    e.preventDefault();
    if (link.pathname + link.search !== location.pathname + location.search) this.open(link.pathname + link.search);
  }

  #go(focus) {
    const name = this.#views[part(location.pathname)] ? part(location.pathname) : "";
    this.#path = location.pathname + location.search;
    if (this.#current !== name) this.#views[this.#current]?.hide?.();
    this.#current = name;
    for (const other of Object.keys(this.#views)) $(`view-${other || "now"}`).hidden = other !== name;
    for (const link of document.querySelectorAll("#views a")) {
      if (part(link.pathname) === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.#views[name].show?.(subject(name));
    this.#head();
    if (!focus) return;
    // A new view is shown from its beginning.
    scrollTo(0, 0);
    $(`view-${name || "now"}`).focus({ preventScroll: true });
  }

  #head() {
    const view = $(`view-${this.#current || "now"}`);
    const parts = [this.#word, this.#current && view.getAttribute("aria-label"), this.#name || "hotparam"];
    const text = parts.filter(Boolean).join(" · ");
    if (document.title !== text) document.title = text;
  }
}

// subject returns the key or the client of an address: from the query, which gateways do not decode, or from the path
// behind its first part.
export const subject = (name, { search, pathname } = location) =>
  search.slice(1).split("&").find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1)
    ?? outside(pathname).slice(name.length + 2);

// part returns the first part of the path of an address, which names the view.
const part = (pathname) => outside(pathname).split("/")[1] ?? "";
