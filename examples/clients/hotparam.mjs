// Asks a sidecar before a request is answered. Node 18, no dependencies.
//
//   const decide = limiter("http://127.0.0.1:8181");
//   const verdict = await decide({ method: req.method, uri: req.url, host: req.headers.host, ip: req.socket.remoteAddress });
//   if (!verdict.allowed) res.writeHead(429, { "Retry-After": retryAfter(verdict) }).end();
//
// Where visitors have passes, decide also needs headers: { cookie: req.headers.cookie }, and a denial that has
// verdict.set_cookie sends it as Set-Cookie, with Cache-Control: no-store.

/** Returns a function that asks the sidecar. A request passes if the sidecar does not answer within timeout ms. */
export function limiter(url, { token, timeout = 100 } = {}) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  return async function decide({ method = "GET", uri, host = "", ip = "", headers: received = {}, cost = 1 }) {
    const body = JSON.stringify({ method, uri, host, ip, headers: received, cost });
    let response, text;
    try {
      const signal = AbortSignal.timeout(timeout);
      response = await fetch(new URL("/v1/decide", url), { method: "POST", headers, body, signal });
      text = await response.text();
    } catch {
      return { allowed: true, reason: "no_answer", retry_after_ms: 0 };
    }
    // The sidecar cannot answer, or the token is wrong; the sidecar's log shows which.
    if (response.status >= 500) return { allowed: true, reason: "no_answer", retry_after_ms: 0 };
    if (response.status !== 200) throw new Error(`hotparam: ${response.status}: ${text}`);
    return JSON.parse(text);
  };
}

/** Returns the whole seconds to wait, at least 1, or undefined if waiting does not help. */
export function retryAfter(verdict) {
  return verdict.retry_after_ms < 0 ? undefined : Math.max(1, Math.ceil(verdict.retry_after_ms / 1000));
}
