// Asks a sidecar before a request is answered. Node 18, no dependencies.
//
//   const decide = limiter("http://127.0.0.1:8181");
//   const verdict = await decide({ method: req.method, uri: req.url, host: req.headers.host, ip: req.socket.remoteAddress });
//   if (!verdict.allowed) res.writeHead(429, { "Retry-After": retryAfter(verdict) }).end();

/** Gives a function that asks. A sidecar that does not answer within timeout ms lets the request pass. */
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
    // It cannot answer, or the token is wrong: its log says so.
    if (response.status >= 500) return { allowed: true, reason: "no_answer", retry_after_ms: 0 };
    if (response.status !== 200) throw new Error(`hotparam: ${response.status}: ${text}`);
    return JSON.parse(text);
  };
}

/** The whole seconds to wait, at least 1; undefined where waiting does not help. */
export function retryAfter(verdict) {
  return verdict.retry_after_ms < 0 ? undefined : Math.max(1, Math.ceil(verdict.retry_after_ms / 1000));
}
