-- HAProxy decides about cold keys itself and asks the limiter only about hot, overridden and suspected keys and
-- clients, by the library that nginx uses (deploy/nginx/hotparam.lua). Each thread has the library's state: it polls
-- the limiter's feed, and posts its decisions every 100 ms. edge.cfg uses this file and names the feed and the file of
-- keys.
--
-- The first part replaces the parts of nginx that the library uses.

local var = {} -- of the request that is decided

local Socket = {}
Socket.__index = Socket

function Socket:settimeouts(_, _, longest)
  self.s:settimeout(longest / 1000)
end

function Socket:connect(host, port)
  if port then
    return self.s:connect(host, tonumber(port))
  end
  return self.s:connect((host:gsub("^unix:", "unix@")))
end

function Socket:send(parts)
  return self.s:send(parts[1] .. (type(parts[2]) == "table" and table.concat(parts[2]) or parts[2]))
end

function Socket:receive(length)
  if length then
    return self.s:receive(length)
  end
  return self.s:receive()
end

function Socket:close()
  self.s:close()
end

Socket.setkeepalive = Socket.close

-- exiting is true in a process that HAProxy has replaced, which ends when it has no connection.
local function exiting()
  return core.get_info()["Stopping"] == 1
end

local function at(delay, f)
  core.register_task(function()
    core.msleep(math.max(math.floor(delay * 1000), 1))
    f(false)
  end)
end

local function every(delay, f)
  core.register_task(function()
    while true do
      core.msleep(math.floor(delay * 1000))
      f(false)
    end
  end)
end

local said = {} -- lines of status that the library writes

-- core.now makes a table, which would take a fifth of the time of a request here.
local clock = os.time()

local function tick()
  local t = core.now()
  clock = t.sec + t.usec / 1e6
end

ngx = {
  var = var,
  header = {},
  ctx = {},
  ERR = core.err,
  NOTICE = core.notice,
  now = function()
    return clock
  end,
  log = function(level, ...)
    core.log(level, table.concat({ ... }))
  end,
  sleep = function(seconds)
    core.msleep(math.floor(seconds * 1000))
  end,
  socket = {
    tcp = function()
      return setmetatable({ s = core.tcp() }, Socket)
    end,
  },
  timer = { at = at, every = every },
  worker = {
    id = function()
      return core.thread
    end,
    exiting = exiting,
  },
  say = function(...)
    said[#said + 1] = table.concat({ ... }) .. "\n"
  end,
  print = function() end, -- edge.cfg writes refusals
  exit = function() end,
}

local hotparam = require("hotparam")

-- The file of keys has the version of the rules, and the networks of clients that no limit applies to.
local exempt = {}
for line in io.lines(os.getenv("HOTPARAM_KEYS")) do
  var.hotparam_rules = line:match("^# rules (%x+)$") or var.hotparam_rules
  exempt[#exempt + 1] = line:match("^# exempt (%S+)$")
end
core.register_init(function()
  for _, network in ipairs(core.thread < 2 and exempt or {}) do
    core.add_acl(os.getenv("HOTPARAM_EXEMPT"), network)
  end
end)

local addresses, known = {}, 0 -- of clients, by their hex digits

local function address(hex)
  if #hex == 8 then
    return string.pack(">I4", tonumber(hex, 16))
  end
  return string.pack(">I8I8", tonumber(hex:sub(1, 16), 16), tonumber(hex:sub(17), 16))
end

-- read reads a request: its client in hex, a space ("+" for a client that no limit applies to), and its key.
local function read(request)
  local mark = request:byte(9)
  local space = (mark == 32 or mark == 43) and 9 or 33
  local client, k = request:sub(1, space - 1), request:sub(space + 1)
  local a = addresses[client]
  if not a then
    if known >= 10000 then
      addresses, known = {}, 0
    end
    a, known = address(client), known + 1
    addresses[client] = a
  end
  var.binary_remote_addr = a
  var.hotparam_exempt = request:byte(space) == 43 and "1" or ""
  var.hotparam_key = k ~= "-" and k or ""
end

-- hotparam-decide returns "pass", "measure", "ask" or "deny" for a request: a request of a rule with a cost passes and
-- is measured. HAProxy takes an error for "ask".
core.register_converters("hotparam-decide", function(request)
  read(request)
  local verdict = hotparam.decide()
  if verdict == "" then
    return hotparam.cost(var.hotparam_key) and "measure" or "pass"
  end
  return verdict
end)

local LENT = 0.1 -- seconds for which edge.cfg repeats a denial, so that it follows the feed, the rules and the limiter
local denied = os.getenv("HOTPARAM_DENIED")
local lent, lents = {}, 0 -- until when, by key

local function json(text)
  return (text:gsub('[%c"\\]', function(c)
    return ("\\u%04x"):format(c:byte())
  end))
end

local body = '{"type":"about:blank","title":"Too Many Requests","status":429,"reason":"%s","rule":"%s","key":"%s"}'

-- lend lets edge.cfg repeat the denial of a key, and returns the values of that denial for edge.cfg, or "" if the key
-- was not denied.
local function lend(k)
  local till, w = hotparam.denial(k)
  if not w then
    return ""
  end
  local left = till - clock
  local retry = left < 1e9 and tostring(math.max(math.ceil(left), 1)) or ""
  local limits = retry ~= "" and ('"%s";r=0;t=%s'):format(w.rule, retry) or ""
  local till_ms = math.floor(1000 * math.min(till, clock + LENT))
  local denial = table.concat({ till_ms, retry, limits, w.policy, body:format(w.reason, json(w.rule), json(k)) }, "|")
  if lent[k] or lents < 1000 then
    lents = lent[k] and lents or lents + 1
    lent[k] = till_ms / 1000
    core.set_map(denied, k, denial)
  end
  return denial
end

every(1, function()
  for k, till in pairs(lent) do
    if till < clock - 1 then
      core.del_map(denied, k)
      lent[k], lents = nil, lents - 1
    end
  end
end)

-- hotparam-deny sets the values from which edge.cfg answers a request that was denied here.
core.register_action("hotparam-deny", { "http-req" }, function(txn)
  txn:set_var("txn.hotparam.denial", lend(txn:get_var("txn.hotparam.plain")))
end, 0)

-- hotparam-repeated counts 16 requests that edge.cfg denied.
core.register_action("hotparam-repeated", { "http-req" }, function(txn)
  read(txn:get_var("txn.hotparam.request"))
  hotparam.repeated(16)
end, 0)

-- hotparam-refused remembers a denial of the limiter, if it is valid for every client.
core.register_action("hotparam-refused", { "http-req" }, function(txn)
  local k = txn:get_var("txn.hotparam.plain")
  var.hotparam_key = k
  var.verdict_key = txn:get_var("txn.hotparam.key")
  var.verdict_reason = txn:get_var("txn.hotparam.reason")
  var.verdict_retry_ms = txn:get_var("txn.hotparam.retry_ms")
  var.verdict_rule = txn:get_var("txn.hotparam.rule")
  var.verdict_policy = txn:get_var("txn.hotparam.ratelimit_policy")
  hotparam.refused()
  lend(k)
end, 0)

-- hotparam-unanswered records that a question had no answer.
core.register_action("hotparam-unanswered", { "http-req" }, function(txn)
  read(txn:get_var("txn.hotparam.request"))
  hotparam.unanswered()
end, 0)

-- hotparam-unreadable records that the answer to a question cannot be read.
core.register_action("hotparam-unreadable", { "http-req" }, function()
  hotparam.unreadable()
end, 0)

-- hotparam-ended reports the response to a request that is measured.
core.register_action("hotparam-ended", { "http-res" }, function(txn)
  read(txn:get_var("txn.hotparam.request"))
  local headers, field = txn.http:res_get_headers(), hotparam.cost(var.hotparam_key)
  local function first(name)
    local lines = headers[name:lower()]
    return lines and not lines[1] and lines[0] or nil
  end
  local status, head = txn.f:status(), txn:get_var("txn.hotparam.method") == "HEAD"
  hotparam.report("^", var.hotparam_key, status, hotparam.amount(txn:get_var("txn.hotparam.ms")),
    hotparam.amount(not head and status ~= 304 and first("content-length")), hotparam.amount(field and first(field)))
end, 0)

-- hotparam-status responds with the state of the thread that answers.
core.register_service("hotparam-status", "http", function(applet)
  said = {}
  hotparam.status()
  local text = table.concat(said)
  applet:set_status(200)
  applet:add_header("content-type", "text/plain")
  applet:add_header("content-length", tostring(#text))
  applet:start_response()
  applet:send(text)
end)

every(0.01, tick)
hotparam.start({ feed = os.getenv("HOTPARAM_FEED"), token = os.getenv("HOTPARAM_TOKEN") })
