// node --test; HOTPARAM_SCRIPT is the module, HOTPARAM_URL a server that limits /topic?id=42.
import assert from "node:assert/strict";
import test from "node:test";

const script = await import(process.env.HOTPARAM_SCRIPT);
const { backoffFetch, debounce, parseList, throttle, waitOf } = script;

// A clock that sleeps at once, and a server that answers from a list and writes down when it was asked.
function bench(answers, options = {}) {
  let clock = 1_000_000;
  const asked = [];
  const get = backoffFetch({
    states: new Map(), jitter: 0, now: () => clock, sleep: async (ms, signal) => { signal.throwIfAborted(); clock += ms; },
    fetch: async (request) => {
      asked.push(clock - 1_000_000);
      const [status, headers] = answers.shift() ?? [200, {}];
      return new Response(status === 204 ? null : "x", { status, headers });
    },
    ...options,
  });
  return { get, asked };
}

test("structured fields", () => {
  assert.deepEqual(parseList('"a;\\"b\\\\";q=200;w=2, tok;r=0;t=1;pk=:cHN0:;x'), [
    { name: 'a;"b\\', params: { q: 200, w: 2 } }, { name: "tok", params: { r: 0, t: 1, pk: ":cHN0:", x: true } },
  ]);
  for (const bad of ['"open', '"a";r=', '"a",', "(1 2)", '"a" "b"', ";r=0", null, ""]) assert.deepEqual(parseList(bad), [], bad);
  parseList('"'.repeat(50_000) + ";".repeat(50_000)); // in linear time
});

test("how long an answer asks to wait", () => {
  const wait = (status, headers) => waitOf(new Response("", { status, headers }), Date.parse("2026-01-01T00:00:00Z"));
  assert.equal(wait(429, { "Retry-After": "3", RateLimit: '"topic";r=0;t=1' }), 3000);
  assert.equal(wait(503, { "Retry-After": "Thu, 01 Jan 2026 00:00:05 GMT" }), 5000);
  assert.equal(wait(200, { RateLimit: '"a";r=0;t=2, "b";r=1;t=9' }), 2000);
  assert.equal(wait(200, { RateLimit: '"a";r=1;t=9' }), 0);
  assert.equal(wait(429, { "RateLimit-Policy": '"a";q=2;w=10' }), 5000);
  assert.equal(wait(429, { "RateLimit-Policy": '"a";q=200;w=1' }), 1000);
  assert.equal(wait(429, {}), 0);
  assert.equal(wait(500, {}), 0);
});

test("a refused request is repeated when it may, and others of the same partition wait with it", async () => {
  const { get, asked } = bench([[429, { "Retry-After": "2" }], [200, {}], [200, { RateLimit: '"a";r=0;t=4' }]]);
  assert.equal((await get("http://a.test/topic?id=42")).status, 200);
  assert.deepEqual(asked, [0, 2000]);
  await get("http://a.test/topic?id=42");
  await get("http://a.test/topic?id=7"); // another partition
  assert.deepEqual(asked, [0, 2000, 2000, 2000]);
  await get("http://a.test/topic?id=42");
  assert.deepEqual(asked, [0, 2000, 2000, 2000, 6000]);
});

test("partitions with one key share it, of one origin", async () => {
  const full = { RateLimit: '"a";r=0;t=5;pk=:cHN0:' };
  const { get, asked } = bench([[200, { RateLimit: '"a";r=1;t=5;pk=:cHN0:' }], [200, full]]);
  for (const url of ["http://a.test/1", "http://a.test/2", "http://b.test/1", "http://a.test/1"]) await get(url);
  assert.deepEqual(asked, [0, 0, 0, 5000]);
});

test("bounds: retries, the longest wait, jitter, what has effects", async () => {
  const refused = () => [429, { "Retry-After": "1" }];
  let { get, asked } = bench([refused(), refused(), refused()], { retries: 2 });
  assert.equal((await get("http://a.test/")).status, 429);
  assert.deepEqual(asked, [0, 1000, 2000]);
  ({ get, asked } = bench([[429, { "Retry-After": "61" }]]));
  assert.equal((await get("http://a.test/")).status, 429);
  ({ get, asked } = bench([refused()], { jitter: 500, random: () => 0.5 }));
  await get("http://a.test/");
  assert.deepEqual(asked, [0, 1250]);
  ({ get, asked } = bench([[429, {}], [429, {}]])); // a block
  assert.equal((await get("http://a.test/")).status, 429);
  assert.deepEqual(asked, [0]);
  ({ get, asked } = bench([[503, { "Retry-After": "1" }]]));
  assert.equal((await get("http://a.test/", { method: "POST", body: "x" })).status, 503);
  ({ get, asked } = bench([refused()]));
  assert.equal((await get("http://a.test/", { method: "POST", body: "x" })).status, 200);
});

test("an AbortSignal ends a wait at once", async () => {
  const abort = new AbortController();
  const get = backoffFetch({
    states: new Map(), fetch: async () => { setImmediate(() => abort.abort(new Error("left"))); return new Response("", { status: 429, headers: { "Retry-After": "50" } }); },
  });
  await assert.rejects(get("http://a.test/", { signal: abort.signal }), /left/);
});

test("throttle and debounce", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const calls = [];
  const slow = throttle((x) => calls.push(x), 100), last = debounce((x) => calls.push(x), 100);
  for (const x of [1, 2, 3]) slow(x);
  assert.deepEqual(calls, [1]);
  t.mock.timers.tick(100);
  assert.deepEqual(calls, [1, 3]);
  for (const x of [7, 8, 9]) last(x);
  t.mock.timers.tick(99);
  assert.deepEqual(calls, [1, 3]);
  t.mock.timers.tick(1);
  assert.deepEqual(calls, [1, 3, 9]);
});

test("a real server", async () => {
  const asked = [];
  const get = backoffFetch({ retries: 1, jitter: 0, states: new Map(), sleep: async (ms) => { asked.push(ms); await new Promise((r) => setTimeout(r, ms)); } });
  const url = `${process.env.HOTPARAM_URL}/topic?id=42`;
  const statuses = [];
  for (let i = 0; i < 3; i++) statuses.push((await get(url)).status);
  assert.deepEqual(statuses, [200, 200, 200]);
  assert.ok(asked.length > 0 && asked.every((ms) => ms > 0 && ms <= 2000), `${asked}`);
});
