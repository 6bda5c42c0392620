-- APISIX (3.x) decides about cold keys itself, and asks the limiter sidecar only about hot, overridden and suspected
-- keys and clients.
--
--   install -D -m 0644 deploy/apisix/hotparam.lua /opt/hotparam/apisix/plugins/hotparam.lua
--   install -m 0644 deploy/nginx/hotparam.lua /opt/hotparam/
--   hotparam gateway nginx --config hotparam.yaml > /etc/apisix/hotparam.map.conf   # again when the rules change
--   limiter-sidecar --config hotparam.yaml --redis.addr 127.0.0.1:6379 --statsd.addr 127.0.0.1:8127 \
--       --check.listen 127.0.0.1:8185 --check.dialect nginx --check.request_id X-Request-ID \
--       --edge.listen 127.0.0.1:8186
--
-- config.yaml, whose list of plugins has to name the others that you use:
--
--   apisix: {extra_lua_path: "/opt/hotparam/?.lua"}
--   nginx_config:
--     main_configuration_snippet: "pcre_jit on;"
--     http_configuration_snippet: "include /etc/apisix/hotparam.map.conf;"
--   plugins: [hotparam]
--
-- With limits of requests in flight or rules with a cost, unless applications stream without end, add
-- http_server_configuration_snippet: "proxy_ignore_client_abort on;", so that a client that leaves keeps its place and
-- pays.
--
-- Classes with priority read fields that plugins before this one write: proxy-rewrite sets or removes X-User.
--
-- Then enable it by a global rule: {"plugins": {"hotparam": {}}}. It is tested in nginx with the parts of APISIX that
-- it uses, not in APISIX.
local core = require("apisix.core")
local hotparam = require("hotparam")

local schema = {
  type = "object",
  properties = {
    feed = { type = "string", default = "127.0.0.1:8186" },
    check = { type = "string", default = "127.0.0.1:8185" },
    wait = { type = "integer", minimum = 1, default = 100 }, -- ms for a verdict
    token = { type = "string" },
  },
}

local M = { version = 0.1, priority = 1011, name = "hotparam", schema = schema } -- before limit-req and others

function M.check_schema(conf)
  return core.schema.check(schema, conf)
end

function M.access(conf)
  return hotparam.access(conf)
end

-- The log phase reports the end of a request, for limits of requests in flight and rules with a cost.
function M.log()
  hotparam.done()
end

return M
