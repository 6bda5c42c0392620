// For web pages whose requests may be limited: throttle and debounce what asks, and a fetch that waits as the server's
// Retry-After, RateLimit and RateLimit-Policy ask. No dependencies; an ES module.
//
//   import { backoffFetch, debounce } from "/hotparam.js";
//   const get = backoffFetch();
//   const search = debounce((text) => get(`/search?q=${encodeURIComponent(text)}`), 250);

/** Calls fn at most once in wait ms: at once, and once more at the end if it was called meanwhile. */
export function throttle(fn, wait) {
  let timer, last;
  const tick = () => {
    timer = undefined;
    if (last) {
      const args = last;
      last = undefined;
      timer = setTimeout(tick, wait);
      fn(...args);
    }
  };
  return (...args) => {
    if (timer !== undefined) {
      last = args;
      return;
    }
    timer = setTimeout(tick, wait);
    fn(...args);
  };
}

/** Calls fn when it has not been called for wait ms, with the last arguments. */
export function debounce(fn, wait) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), wait);
  };
}

const VALUE = String.raw`"(?:[^"\\]|\\["\\])*"|:[A-Za-z0-9+/=]*:|\?[01]|-?\d{1,15}(?:\.\d{1,3})?|[A-Za-z*][^\s",;=()]*`;

/** Reads a list of items with parameters (RFC 9651): [{ name, params }]. A list with a fault is an empty one. */
export function parseList(text) {
  const item = new RegExp(`[ \\t]*(${VALUE})`, "y");
  const param = new RegExp(`;[ ]*([a-z*][a-z0-9_.*-]*)(?:=(${VALUE}))?`, "y");
  const comma = /[ \t]*,/y;
  const list = [];
  let at = 0;
  const next = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  for (text = (text ?? "").trimEnd(); at < text.length; ) {
    const name = next(item);
    if (!name) return [];
    const one = { name: value(name[1]), params: {} };
    for (let p = next(param); p; p = next(param)) one.params[p[1]] = p[2] === undefined ? true : value(p[2]);
    list.push(one);
    if (at < text.length && (!next(comma) || at === text.length)) return [];
  }
  return list;
}

function value(text) {
  if (text[0] === '"') return text.slice(1, -1).replace(/\\(.)/g, "$1");
  if (/^-?\d/.test(text)) return Number(text);
  return text;
}

/** Says how many ms the answer asks to wait before the next request; 0: it does not ask for any. */
export function waitOf(response, now) {
  const refused = response.status === 429 || response.status === 503;
  const after = response.headers.get("Retry-After");
  if (refused && after !== null) {
    const ms = /^\d+$/.test(after.trim()) ? Number(after) * 1000 : Date.parse(after) - now;
    if (ms > 0) return ms;
  }
  const empty = parseList(response.headers.get("RateLimit")).filter(({ params }) => params.r === 0 && params.t > 0);
  const wait = Math.max(0, ...empty.map(({ params }) => params.t * 1000));
  if (wait > 0 || response.status !== 429) return wait;
  const policies = parseList(response.headers.get("RateLimit-Policy"))
    .filter(({ params }) => params.q > 0 && params.w > 0);
  return policies.length && Math.max(1000, ...policies.map(({ params }) => (params.w * 1000) / params.q));
}

// What is known of limits, for all that share this module: by origin and partition, and by origin and partition key
// (pk) where the server says that several partitions share one.
const shared = new Map();
const most = 1000;

function remember(states, key, state) {
  states.delete(key);
  states.set(key, state);
  if (states.size > most) states.delete(states.keys().next().value);
  return state;
}

/**
 * Gives a fetch that holds requests back as the answers before them asked, and repeats those that were refused.
 * Options:
 * partition(url): which requests share a limit; default: those for the same path and query of an origin.
 * retries: how often a refused request is repeated; default 3. A refusal that does not say when to come back, as of a
 * blocked key, is not repeated, and of 503 only what has no effect.
 * maxWait: the longest wait in ms; who would have to wait longer gets the refusal; default 60000.
 * jitter: up to so many ms are added to each wait, at random; default 1000.
 */
export function backoffFetch(options = {}) {
  const {
    fetch = globalThis.fetch.bind(globalThis), partition = (url) => url.pathname + url.search, retries = 3,
    maxWait = 60000, jitter = 1000, random = Math.random, now = Date.now, sleep = delay, states = shared,
  } = options;
  return async function limited(input, init) {
    const request = new Request(input instanceof Request ? input : new URL(input, globalThis.location?.href), init);
    const url = new URL(request.url);
    const key = JSON.stringify([url.origin, partition(url)]);
    let state = states.get(key) ?? remember(states, key, { until: 0 });
    for (let attempt = 0; ; attempt++) {
      for (let wait = state.until - now(); wait > 0 && wait <= maxWait; wait = state.until - now()) {
        await sleep(wait + random() * jitter, request.signal);
      }
      request.signal.throwIfAborted();
      const response = await fetch(attempt < retries ? request.clone() : request);
      const limits = parseList(response.headers.get("RateLimit"));
      const pk = limits.find(({ params }) => typeof params.pk === "string")?.params.pk;
      if (pk !== undefined) {
        const common = JSON.stringify([url.origin, { pk }]);
        state = remember(states, key, states.get(common) ?? remember(states, common, state));
      }
      const wait = waitOf(response, now());
      state.until = Math.max(state.until, wait > 0 ? now() + wait : 0);
      const repeat = response.status === 429 ||
        (response.status === 503 && /^(GET|HEAD|OPTIONS)$/.test(request.method));
      if (!repeat || wait === 0 || wait > maxWait || attempt >= retries) return response;
      await response.body?.cancel();
    }
  };
}

/** Waits ms, or rejects with the signal's reason as soon as it is aborted. */
function delay(ms, signal) {
  return new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
