// node node.cjs NAME PORT: three routes, /topic, /articles/:id/:slug and /login, that answer with what the framework's
// usual way to read a query, a path, or a header gives.
const [, , name, port] = process.argv;
const { createRequire } = require("module");
const need = createRequire(process.cwd() + "/"); // packages stand in the working directory
const at = { port: Number(port), hostname: "127.0.0.1" };
const saw = (q) => ({ saw: true, id: q.id, topic_id: q.topic_id });
const read = (method, host, account) => ({ saw: true, method, host, account });
const article = "/articles/:id/:slug";

const express = (version) => {
  const app = need(version)();
  app.all("/topic", (req, res) => res.json(saw(req.query)));
  const login = (req, res) => res.json(read(req.method, req.hostname, req.get("X-Account")));
  app.get("/login", login).post("/login", login);
  app.all(article, (req, res) => res.json(saw(req.params)));
  app.listen(at.port, at.hostname);
};
const plain = (parse) =>
  require("http")
    .createServer((req, res) => {
      let found;
      if (req.url === "/login" && (req.method === "GET" || req.method === "POST")) {
        res.end(JSON.stringify(read(req.method, req.headers.host, req.headers["x-account"])));
        return;
      }
      try {
        const url = parse(req.url);
        const [root, name, id, slug, more] = url.path.split("/");
        if (url.path === "/topic") found = url.query;
        if (root === "" && name === "articles" && id && slug && more === undefined) found = { id: decodeURIComponent(id) };
      } catch {
        found = undefined;
      }
      res.statusCode = found ? 200 : 404;
      res.end(found ? JSON.stringify(saw(found)) : "");
    })
    .listen(at.port, at.hostname);

({
  express4: () => express("express4"),
  express5: () => express("express5"),
  "koa-router": () => {
    const Koa = need("koa");
    const Router = need("@koa/router");
    const router = new (Router.default || Router)();
    router.all("/topic", (ctx) => (ctx.body = saw(ctx.query)));
    const login = (ctx) => (ctx.body = read(ctx.method, ctx.hostname, ctx.get("X-Account")));
    router.get("/login", login).post("/login", login);
    router.all(article, (ctx) => (ctx.body = saw(ctx.params)));
    new Koa().use(router.routes()).listen(at.port, at.hostname);
  },
  fastify: () => {
    const app = need("fastify")();
    app.all("/topic", async (req) => saw(req.query));
    app.route({
      method: ["GET", "POST"],
      url: "/login",
      handler: async (req) => read(req.method, req.hostname, req.headers["x-account"]),
    });
    app.all(article, async (req) => saw(req.params));
    app.listen({ port: at.port, host: at.hostname });
  },
  hono: async () => {
    const { Hono } = need("hono");
    const app = new Hono();
    app.all("/topic", (c) => c.json(saw({ id: c.req.query("id"), topic_id: c.req.query("topic_id") })));
    app.on(["GET", "POST"], "/login", (c) =>
      c.json(read(c.req.method, new URL(c.req.url).host, c.req.header("X-Account"))),
    );
    app.all(article, (c) => c.json(saw(c.req.param())));
    need("@hono/node-server").serve({ fetch: app.fetch, ...at });
  },
  "node-URL": () =>
    plain((target) => {
      const url = new URL(target, "http://h");
      return { path: url.pathname, query: { id: url.searchParams.get("id"), topic_id: url.searchParams.get("topic_id") } };
    }),
  "node-url.parse": () =>
    plain((target) => {
      const url = require("url").parse(target, true);
      return { path: url.pathname, query: url.query };
    }),
})[name]();
