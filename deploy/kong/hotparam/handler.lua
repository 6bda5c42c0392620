-- Kong (3.x) decides about cold keys itself, and asks the limiter sidecar only about hot, overridden and suspected keys
-- and clients.
--
--   install -D -m 0644 -t /usr/local/share/lua/5.1/kong/plugins/hotparam deploy/kong/hotparam/*.lua
--   install -m 0644 deploy/nginx/hotparam.lua /usr/local/share/lua/5.1/
--   hotparam gateway nginx --config hotparam.yaml > /etc/kong/hotparam.map.conf   # again when the rules change
--   limiter-sidecar --config hotparam.yaml --redis.addr 127.0.0.1:6379 --statsd.addr 127.0.0.1:8127 \
--       --check.listen 127.0.0.1:8185 --check.dialect nginx --check.request_id X-Request-ID \
--       --edge.listen 127.0.0.1:8186
--   KONG_PLUGINS=bundled,hotparam KONG_NGINX_HTTP_INCLUDE=/etc/kong/hotparam.map.conf KONG_NGINX_MAIN_PCRE_JIT=on \
--       kong start
--   curl localhost:8001/plugins -d name=hotparam
--
-- With limits of requests in flight or rules with a cost, unless applications stream without end, set
-- KONG_NGINX_PROXY_PROXY_IGNORE_CLIENT_ABORT=on, so that a client that leaves keeps its place and pays.
--
-- Classes with priority read fields that plugins before this one write, such as X-Consumer-Username. Where no plugin
-- writes such a field, a client may.
--
-- It is tested in nginx with the parts of Kong that it uses, not in Kong.
local hotparam = require("hotparam")

local Handler = { VERSION = "0.1.0", PRIORITY = 911 } -- before rate-limiting, after authentication

function Handler:access(conf)
  return hotparam.access(conf)
end

-- The log phase reports the end of a request, for limits of requests in flight and rules with a cost.
function Handler:log()
  hotparam.done()
end

return Handler
