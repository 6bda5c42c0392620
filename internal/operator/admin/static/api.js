// API: the calls of the server. Each resolves to the answer's JSON, or throws a
// Problem with the words of the server.

export class Problem extends Error {
  constructor({ detail, field, remedy }) {
    super(detail);
    this.field = field;
    this.remedy = remedy;
  }
}

// at gives the address of a path without the user and password that the page's
// own address may hold: browsers refuse to fetch with them.
export const at = (path) => new URL(path, location.origin);

async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(at(path), {
      method,
      headers: body ? { "Content-Type": "application/json" } : {},
      body: body ? JSON.stringify(body) : undefined,
    });
  } catch {
    const remedy = method === "GET" ? "Try again when it is back." : "Nothing was changed; try again when it is back.";
    throw new Problem({ detail: "The server cannot be reached.", remedy });
  }
  if (answer.status === 204) return null;
  const json = await answer.json().catch(() => ({ detail: `The server answered ${answer.status}.` }));
  if (!answer.ok) throw new Problem(json);
  return json;
}

export const getJSON = (path) => call("GET", path);

const query = (author) => (author ? "?author=" + encodeURIComponent(author) : "");
const path = (id) => "/v1/overrides/" + encodeURIComponent(id);

export const putOverride = (override, id) => call("PUT", id ? path(id) : "/v1/overrides", override);
// tryOverride says what an override would hold; nothing is changed.
export const tryOverride = (override) => call("PUT", "/v1/overrides?dry_run=true", override);
export const deleteOverride = (id) => call("DELETE", path(id) + query(me.get()));
export const undoOverride = (id) => call("POST", path(id) + "/undo" + query(me.get()));
export const enforceOverride = (id) => call("POST", path(id) + "/enforce" + query(me.get()));
// testWebhooks sends a test event to one webhook, or to all if name is "".
export const testWebhooks = (name) =>
  call("POST", "/v1/notifications/test?" + new URLSearchParams({ ...(name && { name }), author: me.get() }));

// me remembers the name of who uses this browser.
export const me = {
  get() {
    try { return localStorage.getItem("hotparam.author") ?? ""; } catch { return ""; }
  },
  set(name) {
    try { localStorage.setItem("hotparam.author", name); } catch { /* private window: asked again next time */ }
  },
};
