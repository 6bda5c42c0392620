// API: the calls of the server, and its event stream. A call resolves to the response's JSON, or throws a Problem with
// the server's text.

export class Problem extends Error {
  // number is the number that a person types to confirm the change, or undefined if the change cannot be confirmed.
  constructor({ detail, field, remedy, percent, losses }) {
    super(detail);
    this.field = field;
    this.remedy = remedy;
    this.number = percent ?? losses;
  }
}

// inside returns the address of a path of the API or of a view, as links have it: below the prefix under which the page
// is mounted. This module is in the folder assets of that prefix.
const prefix = new URL("..", import.meta.url).pathname.slice(0, -1);
export const inside = (path) => prefix + path;

// outside returns the path of the API or of a view from the path of a link: it removes the prefix.
export const outside = (pathname) => pathname.slice(prefix.length);

// at returns the URL of a path without the user and password that the page's own address may hold, because browsers
// refuse to fetch URLs with a password.
export const at = (path) => new URL(inside(path), location.origin);

// signedOut is true once the server refused the credentials of the browser, as after they expired. The page then sends
// no more requests, because browsers ask for a password at every refusal; a person loads it again.
let signedOut = false;
const refusal = "The server does not accept your sign-in any more.";

// call sends a body as JSON, or as the type that headers names.
async function call(method, path, body, headers = body ? { "Content-Type": "application/json" } : {}) {
  if (signedOut) throw new Problem({ detail: refusal, remedy: "Sign in again." });
  let answer;
  try {
    answer = await fetch(at(path), {
      method,
      headers,
      body: body && typeof body !== "string" ? JSON.stringify(body) : body,
    });
  } catch {
    const remedy = method === "GET" ? "Try again when it is back." : "Nothing was changed; try again when it is back.";
    throw new Problem({ detail: "The server cannot be reached.", remedy });
  }
  signedOut = answer.status === 401;
  if (answer.status === 204) return { change: Number(answer.headers.get("Hotparam-Revision")) };
  const json = await answer.json().catch(() => ({ detail: `The server answered ${answer.status}.` }));
  if (!answer.ok) throw new Problem(json);
  return json;
}

// inQuery encodes a text, which is already percent-encoded for a path, as a value of a query.
export const inQuery = (text) => text.replaceAll("+", "%2B").replaceAll("&", "%26").replaceAll("#", "%23");

export const getJSON = (path) => call("GET", path);

const query = (parts) => {
  const text = String(new URLSearchParams(Object.entries(parts).filter(([, value]) => value)));
  return text && "?" + text;
};
const path = (id) => "/v1/overrides/" + encodeURIComponent(id);

// limitOf reads the rate and the burst of a limit as a person types them; burst may be "". The API has counts of a
// burst for one unit of the cost of the rule. It throws a Problem if the server would refuse a number.
export function limitOf(texts, counts = 1) {
  const rate = Number(texts.rate.trim()), burst = texts.burst.trim(), n = Math.round(Number(burst) * counts);
  const wrong = (field, detail) => { throw new Problem({ detail, field }); };
  if (!(rate >= 1e-6 && rate <= 1e9)) wrong("rate", "Write a number from 0.000001 to 1,000,000,000.");
  if (burst === "") return { rate };
  const fits = n >= 1 && n < 2 ** 53 && (counts > 1 || n === Number(burst));
  if (!fits) wrong("burst", `Write a ${counts > 1 ? "" : "whole "}number above 0, or nothing.`);
  return { rate, burst: n };
}

// over returns the headers for a change of exactly the version of an override that the person has seen, or no headers
// if version is undefined: then any version is changed.
const over = (version) => (version == null ? {} : { "If-Match": `"${version}"` });

// The server refuses a change that reaches much with the field confirm; secondWord in dialog.js then asks the person,
// and calls again with true. row names the list that the target was taken from.
export const putOverride = (override, { id, version, row, confirm } = {}) =>
  call("PUT", (id ? path(id) : "/v1/overrides") + query({ confirm, row }), override,
    { "Content-Type": "application/json", ...over(version) });
// tryOverride returns the reach of an override and the warnings about it, and changes nothing.
export const tryOverride = (override) => call("PUT", "/v1/overrides?dry_run=true", override);
export const deleteOverride = ({ id, version }) =>
  call("DELETE", path(id) + query({ author: me.get() }), undefined, over(version));
// undoOverride takes back one change of an override, which is named by its revision or by the version of the override
// that it made. The server refuses if the override was changed again since.
export const undoOverride = ({ id, revision, version }, confirm) =>
  call("POST", path(id) + "/undo" + query({ author: me.get(), confirm, revision }), undefined, over(version));
export const enforceOverride = ({ id, version }, confirm) =>
  call("POST", path(id) + "/enforce" + query({ author: me.get(), confirm }), undefined, over(version));
// putRules stores central rules on top of a version; tryRules returns the decisions that they would have changed.
export const putRules = (text, version, reason, confirm) =>
  call("PUT", "/v1/rules" + query({ author: me.get(), reason, confirm }), text,
    { "Content-Type": "application/yaml", "If-Match": `"${version}"` });
// enforceRule pushes the rules of a version with the limit of one rule enforced, which is in shadow mode there.
export const enforceRule = (rule, version, reason, confirm) =>
  call("POST", "/v1/rules/enforce" + query({ rule, author: me.get(), reason, confirm }), undefined, over(version));
export const tryRules = (text) => call("PUT", "/v1/rules?dry_run=true", text, { "Content-Type": "application/yaml" });
// traceClient has limiters record the requests of a client for a minute; client is percent-encoded.
export const traceClient = (client) => call("POST", `/v1/client/trace?client=${inQuery(client)}`);
// testWebhooks sends a test event to one webhook, or to all if name is "".
export const testWebhooks = (name) =>
  call("POST", "/v1/notifications/test?" + new URLSearchParams({ ...(name && { name }), author: me.get() }));

// me remembers the name of the person who uses this browser.
export const me = {
  get() {
    try { return localStorage.getItem("hotparam.author") ?? ""; } catch { return ""; }
  },
  set(name) {
    try { localStorage.setItem("hotparam.author", name); } catch { /* private window: asked again next time */ }
  },
};

// The live connection. The browser itself reconnects after a break, unless the server refused the connection.

const names = ["hello", "state", "change", "overrides"];

// silentAfter is the silence, in milliseconds, after which the connection counts as broken: the server sends a state
// every second.
const silentAfter = 6000;
const againAfter = 3000;

// follow calls handlers by event name. It also calls handlers.alive with true on each event, and with false when the
// connection breaks or is silent, and handlers.refused with a sentence when the server refuses the credentials.
export function follow(path, handlers) {
  let source, heard = 0, retry = 0;

  function open() {
    clearTimeout(retry);
    source?.close();
    source = new EventSource(at(path));
    for (const name of names) {
      source.addEventListener(name, (e) => {
        heard = performance.now();
        handlers.alive(true);
        handlers[name](JSON.parse(e.data));
      });
    }
    source.addEventListener("error", async () => {
      handlers.alive(false);
      // The source is closed if the server refused it by its status or type. Browsers do not retry then.
      if (source.readyState === EventSource.CLOSED && await mayAsk()) retry = setTimeout(open, againAfter);
    });
    heard = performance.now();
  }

  open();
  // A page that the browser keeps for its back button must not keep its connection, because a browser opens only six to
  // one server.
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (e) => e.persisted && open());
  const watch = setInterval(async () => {
    if (signedOut) {
      clearInterval(watch);
      source.close();
      return handlers.refused(refusal);
    }
    if (performance.now() - heard < silentAfter) return undefined;
    heard = performance.now();
    source.close();
    handlers.alive(false);
    if (await mayAsk()) open();
    return undefined;
  }, 1000);
}

// mayAsk reports whether the server still accepts the credentials of the browser, or cannot be asked. Browsers hide the
// status of a refused stream from pages, so the credentials are sent once more.
async function mayAsk() {
  const asked = { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(silentAfter) };
  try {
    signedOut = (await fetch(at("/v1/caller"), asked)).status === 401;
  } catch { /* the connection is lost */ }
  return !signedOut;
}

// The clock of the server, by which the times in its responses are; the clock of the browser may differ by minutes.
let ahead = 0; // milliseconds of the server's clock before the browser's

export const setServerTime = (at) => { ahead = Date.parse(at) - Date.now(); };
export const serverNow = () => Date.now() + ahead;
