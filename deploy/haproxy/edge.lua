-- HAProxy decides about cold keys itself and asks the limiter only about what is hot, overridden or suspected, by the
-- library that nginx uses (deploy/nginx/hotparam.lua). Each thread has the library's state: it polls the limiter's
-- feed, and posts what it decided every 100 ms. edge.cfg uses this file and names the feed and the file of keys.
--
-- The first part is what the library uses of nginx.

local var = {} -- of the request that is decided
local client -- its address, in hex

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

local said = {} -- what the library writes of its status

-- core.now makes a table, which would be a fifth of what a request costs here.
local clock = os.time()

local function tick()
  local t = core.now()
  clock = t.sec + t.usec / 1e6
end

ngx = {
  var = var,
  header = {},
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
  local version = line:match("^# rules (%x+)$")
  local first, last = line:match("^# exempt (%x+) (%x+)$")
  if version then
    var.hotparam_rules = version
  elseif first then
    exempt[#exempt + 1] = { first = first, last = last }
  end
end

local mapped = ("0"):rep(20) .. "FFFF" -- begins an IPv4 address that is written as IPv6

-- The library asks for what is not set above only about keys that are denied.
setmetatable(var, {
  __index = function(_, name)
    if name:match("_exempt$") then
      local c = client:sub(1, 24) == mapped and client:sub(25) or client
      for _, e in ipairs(exempt) do
        if #c == #e.first and e.first <= c and c <= e.last then
          return "1"
        end
      end
      return ""
    end
  end,
})

local addresses, known = {}, 0 -- of clients, by their hex digits

local function address(hex)
  if #hex == 8 then
    return string.pack(">I4", tonumber(hex, 16))
  elseif hex:sub(1, 24) == mapped then
    return string.pack(">I4", tonumber(hex:sub(25), 16))
  end
  return string.pack(">I8I8", tonumber(hex:sub(1, 16), 16), tonumber(hex:sub(17), 16))
end

-- hotparam-decide is "pass", "ask" or "deny" for a request: its client in hex, a space, and its key. HAProxy takes an
-- error for "ask".
core.register_converters("hotparam-decide", function(request)
  local space = request:byte(9) == 32 and 9 or 33
  local k = request:sub(space + 1)
  client = request:sub(1, space - 1)
  local a = addresses[client]
  if not a then
    if known >= 10000 then
      addresses, known = {}, 0
    end
    a, known = address(client), known + 1
    addresses[client] = a
  end
  var.binary_remote_addr = a
  var.hotparam_key = k ~= "-" and k or ""
  local verdict = hotparam.decide()
  return verdict == "" and "pass" or verdict
end)

-- hotparam-deny sets what edge.cfg says of a request that was denied here. It has to follow hotparam-decide at once.
core.register_action("hotparam-deny", { "http-req" }, function(txn)
  txn:set_var("txn.hotparam.reason", var.hotparam_reason)
  txn:set_var("txn.hotparam.rule", var.hotparam_rule)
  txn:set_var("txn.hotparam.key", var.hotparam_key)
  if var.hotparam_retry then
    txn:set_var("txn.hotparam.retry_after", tostring(var.hotparam_retry))
    txn:set_var("txn.hotparam.ratelimit", '"' .. var.hotparam_rule .. '";r=0;t=' .. var.hotparam_retry)
  end
  if var.hotparam_policy ~= "" then
    txn:set_var("txn.hotparam.ratelimit_policy", var.hotparam_policy)
  end
  var.hotparam_retry = nil
end, 0)

-- hotparam-refused remembers a denial of the limiter, if it is valid for every client.
core.register_action("hotparam-refused", { "http-req" }, function(txn)
  var.hotparam_key = txn:get_var("txn.hotparam.plain")
  var.verdict_key = txn:get_var("txn.hotparam.key")
  var.verdict_reason = txn:get_var("txn.hotparam.reason")
  var.verdict_retry_ms = txn:get_var("txn.hotparam.retry_ms")
  var.verdict_rule = txn:get_var("txn.hotparam.rule")
  var.verdict_policy = txn:get_var("txn.hotparam.ratelimit_policy")
  hotparam.refused()
end, 0)

-- hotparam-unanswered says that a question had no answer.
core.register_action("hotparam-unanswered", { "http-req" }, function()
  hotparam.unanswered()
end, 0)

-- hotparam-status is the state of the thread that answers.
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
