-- nginx decides about cold keys itself and asks the limiter only about hot, overridden and suspected keys and clients.
-- edge.conf uses it; docs/gateways.md and docs/protocol.md (Edge) describe it.
--
-- Each worker has the state below: it polls the limiter's feed by a timer, and posts its decisions every 100 ms. The
-- code that runs for each request has no loops, because LuaJIT interprets a function with a loop that runs once a
-- request. A worker needs about 130 bytes of memory for each hot key, and at most 16 MB for decisions to be posted.

local var, now, ceil, max, sub = ngx.var, ngx.now, math.ceil, math.max, string.sub
local M = {}

local STALE = 2 -- seconds for which a feed is valid
local SILENT = 1 -- seconds at most for which nothing is asked while the limiter counts as gone
local PROBE = 0.15 -- seconds for which one question is asked alone after that; more than a question may wait
local HALF = 0.5 -- seconds: questions are counted by halves of a second
local SOME = 3 -- clients whose questions have to be lost before the limiter counts as gone by them
local MAPPED = ("\0"):rep(10) .. "\255\255" -- begins an IPv4 address on a socket for both families
local LONGEST_DENIAL = 1 -- seconds for which a denial is remembered, so that a reset takes effect
local LONGEST_RELOAD = 120 -- seconds after which a page reloads itself
local UNREAD = "unread" -- reason of a denial because the limiter's answer cannot be read
local MOST = 40000 -- requests between two posts; further ones are lost and counted

local config
local out = var -- the server's variables about a denial
local hot = {} -- by key: 0: ask; -1: ask, and remember denials; -2: cached; else: deny until that time
local why = {} -- by key that is denied: reason, rule and policy
local suspects = {} -- clients that are asked about
local theirs, mine = false, nil -- versions of the rules: of the limiter, of the file
local fresh_until = 0 -- until when the feed is valid
local silent_until, silence = 0, 0 -- until when the limiter counts as gone, and for how long since it was asked
local doubt, probe_until = false, 0 -- whether the next question is a probe, and until when that is under way
local half_until = 0 -- until when this half of a second lasts
local asked, missing, losers = 0, 0, {} -- its questions, the questions without one byte of answer, and their clients
local asked_before, missing_before, losers_before = 0, 0, {} -- the same of the half before it
local verifying = false -- whether the feed is asked if the limiter is there
local longest, prefix = 1e9, 8 -- bytes of keys, and of clients
local version, age = "", "-"
local fields, secret = nil, nil -- of the feed: the fields that have costs, by rule; the promise to report ends
local plugin = false -- whether access is used
local reporting = false -- whether the server reports the ends of requests
local signs, keys, clients, n = {}, {}, {}, 0 -- decisions since the last post
local lost, posted, failed, unanswered, unread, errors = 0, 0, 0, 0, 0, 0
local state, why_state, logged, minute = "starting", "", 0, 0

-- cost returns the field of the response that has the cost of a key, "-" if the cost has no field, or nil if the key
-- counts requests. Keys that begin with a slash belong to the rule "*".
function M.cost(k)
  if not fields then
    return nil
  end
  return fields[sub(k, 1, 1) == "/" and "*" or k:match("^[^?]*")]
end

-- client returns the client of a request: an IPv4 address, or the prefix of an IPv6 address.
local function client()
  local a = var.binary_remote_addr
  if #a == 4 then
    return a
  elseif #a == 16 and sub(a, 1, 12) == MAPPED then
    return sub(a, 13)
  end
  return sub(a, 1, prefix)
end

-- note keeps a decision for the next post: "+" passed, "~" passed and its cost follows, "-" was denied, "=" is for the
-- cache.
local function note(sign, k, c)
  if n < MOST then
    n = n + 1
    signs[n], keys[n], clients[n] = sign, k, c
  else
    lost = lost + 1
  end
end

local function count(k, c)
  local sign = "+"
  if reporting and M.cost(k) then
    sign = "~"
    if plugin then
      ngx.ctx.hotparam_passed = k
    else
      out.hotparam_passed = k -- internal redirects clear ngx.ctx
    end
  end
  note(sign, k, c)
  return ""
end

-- deny sets the server's variables about a denial.
local function deny(k, c)
  note("-", k, c)
  local w, left = why[k], hot[k] - now()
  out.hotparam_reason, out.hotparam_rule, out.hotparam_policy = w.reason, w.rule, w.policy
  if left < 1e9 then
    out.hotparam_retry = max(ceil(left), 1)
  end
  return "deny"
end

local function cached(k, c)
  note("=", k, c)
  return "cached"
end

-- turn begins another half of a second.
local function turn(t)
  if t < half_until + HALF then
    asked_before, missing_before, losers_before = asked, missing, losers
  else
    asked_before, missing_before, losers_before = 0, 0, {}
  end
  half_until, asked, missing, losers = t + HALF, 0, 0, {}
end

-- ask returns "ask". After questions without an answer it asks a single question, so that no other request waits if the
-- limiter is still away.
local function ask(t)
  if reporting and secret then
    out.hotparam_reports = secret .. "-" .. var.request_id
  end
  if doubt then
    doubt, probe_until, silent_until = false, t + PROBE, t + PROBE
  end
  if half_until <= t then
    turn(t)
  end
  asked = asked + 1
  return "ask"
end

-- without decides without a valid feed. While the limiter is gone nothing is asked: keys keep their last denial until
-- it expires, and their cache; the others pass.
local function without(k, t)
  if silent_until <= t then
    return ask(t)
  end
  local c = client()
  if k == "?" then
    return ""
  end
  if (hot[k] or 0) > t and var.hotparam_exempt == "" then
    return deny(k, c)
  end
  if hot[k] == -2 and var.hotparam_cache == "1" then
    return cached(k, c)
  end
  return count(k, c)
end

local function look()
  local k, t = var.hotparam_key, now()
  if mine ~= theirs then
    mine = var.hotparam_rules
  end
  if fresh_until < t or silent_until > t or mine ~= theirs then
    return without(k, t)
  end
  local c = client()
  if k == "?" or suspects[c] or #k > longest then
    return ask(t)
  end
  local a = hot[k]
  if not a then
    return count(k, c)
  end
  if a <= t or var.hotparam_exempt ~= "" then
    if a == -2 and var.hotparam_cache == "1" then
      return cached(k, c)
    end
    return ask(t)
  end
  return deny(k, c)
end

-- decide returns "" for a request that passes, "ask", "cached", or "deny". An error asks.
function M.decide()
  local ok, verdict = pcall(look)
  if ok then
    return verdict
  end
  errors = errors + 1
  if errors < 10 then
    ngx.log(ngx.ERR, "hotparam: ", verdict)
  end
  return "ask"
end

local page = [[<!doctype html><html lang="en"><title>Too Many Requests</title><h1>Too many requests</h1>
                <p>Please try again in a moment.</p></html>
]]

-- answer answers a denied request. cookie sets a visitor pass. A page reloads itself, unless that is more than some
-- minutes away.
local function answer(reason, rule, key, retry, limits, policy, cookie)
  local h = ngx.header
  ngx.status = 429
  h["Retry-After"], h["RateLimit"], h["RateLimit-Policy"] = retry, limits, policy
  h["Cache-Control"], h["Set-Cookie"] = "no-store", cookie
  if (var.http_accept or ""):lower():find("text/html", 1, true) then
    h["Content-Type"] = "text/html"
    h["Refresh"] = var.request_method == "GET" and (tonumber(retry) or 1e9) <= LONGEST_RELOAD and retry or nil
    return ngx.print(page)
  end
  h["Content-Type"] = "application/problem+json"
  ngx.print('{"type":"about:blank","title":"Too Many Requests","status":429,\n                "reason":"', reason,
    '","rule":"', rule, '","key":"', key, '"}\n')
end

local function given(text)
  return text ~= "" and text or nil
end

-- refuse answers a request that is denied here.
function M.refuse()
  answer(var.hotparam_reason, var.hotparam_rule, var.hotparam_key, given(var.hotparam_retry),
    given(var.hotparam_ratelimit), given(var.hotparam_policy))
end

-- remember remembers a denial of the limiter for key, if it is valid for every client.
local function remember(key, reason, retry_ms, rule, policy)
  local k, ms = var.hotparam_key, tonumber(retry_ms)
  if ms and ms > 0 and hot[k] == -1 or (hot[k] or 0) > 0 and not (why[k] or {}).feed then
    if ms and (reason == "hot" or reason == "override") and key == k then
      hot[k] = now() + math.min(ms / 1000, LONGEST_DENIAL)
      why[k] = { reason = reason, rule = rule, policy = policy or "" }
    end
  end
end

-- refused answers a request that the limiter denies, from the location of the cache if the key has one.
function M.refused(cache)
  local status = var.verdict_status
  if status == "400" or status == "431" then
    ngx.status = tonumber(status)
    return ngx.exit(ngx.status)
  end
  local reason = given(var.verdict_reason) or UNREAD
  if hot[var.hotparam_key] == -2 and var.hotparam_cache == "1" and (reason == "hot" or reason == "fair") then
    return ngx.exec(cache)
  end
  remember(var.verdict_key, reason, var.verdict_retry_ms, var.verdict_rule, var.verdict_policy)
  answer(reason, var.verdict_rule or "", var.verdict_key or "", given(var.verdict_retry),
    given(var.verdict_ratelimit), given(var.verdict_policy), given(var.verdict_cookie))
end

-- sum returns the sum of the times in ms of all upstreams that nginx tried, or "-" without any.
local function sum(times)
  local s
  for n in (times or ""):gmatch("[%d.]+") do
    s = (s or 0) + 1000 * tonumber(n)
  end
  return s and ("%.3f"):format(s) or "-"
end

-- amount returns a number of a field of the response, or "-".
function M.amount(text)
  local n = tonumber(text)
  return n and n >= 0 and n < 1e12 and ("%.3f"):format(n) or "-"
end

-- report keeps the end of a request for the next post: its status, the upstream's time in ms, the bytes of the body,
-- and the number in the field. sign is "<" for a request that the limiter knows by its number k, and for a request that
-- passed by the key k ">" if its cost was promised, or else "^".
function M.report(sign, k, status, ms, bytes, cost)
  local values = sign .. table.concat({ status, ms, bytes, cost }, ",")
  if sign == "<" then
    note(values, k, "")
  else
    note(values .. ",", k, client())
  end
end

local flush
local due = false -- whether a post of numbered requests is under way

-- release posts soon, because a numbered request may hold a slot of requests in flight.
local function release()
  if not due and ngx.timer.at(0, flush) then
    due = true
  end
end

-- number returns the number of the request that is decided, by which the limiter knows it. A variable that no file
-- names has another value each time.
local function number()
  return sub(plugin and ngx.ctx.hotparam_id or var.request_id, 1, 16)
end

-- forgotten reports that a question was given up. The limiter may still read it, and must not wait for its end.
local function forgotten()
  if reporting and secret then
    M.report("<", number(), 0, "-", "-", "-")
    release()
  end
end

-- done reports in the log phase that a request has ended: the limiter gave it a number, or it passed without a question
-- and its key counts by a cost.
function M.done()
  reporting = true
  local numbered = given(plugin and ngx.ctx.hotparam_report or var.verdict_report or "")
  local k = numbered and number() or fields and given(plugin and ngx.ctx.hotparam_passed or var.hotparam_passed or "")
  if not k then
    return
  end
  local ms = sum(var.upstream_header_time)
  local field = M.cost(numbered and (plugin and ngx.ctx.hotparam_of or var.verdict_key or "") or k) or "-"
  if ms == "-" then
    ms = sum(var.upstream_response_time) -- the client left, or the upstream failed
  end
  local cost = field ~= "-" and M.amount(var["upstream_http_" .. field:lower():gsub("-", "_")]) or "-"
  M.report(numbered and "<" or ">", k, var.status, ms, var.body_bytes_sent, cost)
  if numbered then
    release()
  end
end

-- denial returns until when a key is denied to all clients, and why: reason, rule and policy.
function M.denial(k)
  return hot[k], why[k]
end

-- repeated counts n requests that the server denied without decide, as requests of the client of this request.
function M.repeated(n)
  note(n .. "-", var.hotparam_key, client())
end

-- complain logs a line, ten a minute at most.
local function complain(text, level)
  local at = math.floor(now() / 60)
  if at ~= minute then
    minute, logged = at, 0
  end
  logged = logged + 1
  if logged <= 10 then
    ngx.log(level or ngx.ERR, "hotparam: ", text)
  end
end

-- become logs a change of the state.
local function become(name, reason)
  if state ~= name or why_state ~= reason then
    state, why_state = name, reason
    complain(name .. (reason ~= "" and ": " or "") .. reason, name == "deciding" and ngx.NOTICE)
  end
end

-- exchange sends a request with further fields to the limiter, and returns the status, the body and the fields of its
-- answer; or nil, the reason, and whether an answer began.
local function exchange(s, address, line, fields, body, size)
  local ok, err
  if address:sub(1, 5) == "unix:" then
    ok, err = s:connect(address)
  else
    ok, err = s:connect(address:match("^(.*):(%d+)$"))
  end
  if not ok then
    return nil, err
  end
  local head = { line, " HTTP/1.1\r\nHost: hotparam\r\n", fields }
  if config.token then
    head[#head + 1] = "Authorization: Bearer " .. config.token .. "\r\n"
  end
  if body then
    head[#head + 1] = "Content-Length: " .. size .. "\r\n"
  end
  head[#head + 1] = "\r\n"
  ok, err = s:send({ table.concat(head), body or "" })
  local first, part
  if ok then
    first, err, part = s:receive()
  end
  local status = first and tonumber(first:match("^HTTP/1%.1 (%d%d%d)"))
  local length, keep, answered = 0, true, {}
  while status do
    local l = s:receive()
    if not l or l == "" then
      status = l and status
      break
    end
    local name, value = l:match("^([^:]+): *(.*)$")
    name = (name or ""):lower()
    answered[name] = value
    if name == "content-length" then
      length = tonumber(value)
    elseif name == "connection" and value:lower() == "close" then
      keep = false
    end
  end
  local text = status and (length > 0 and s:receive(length) or "")
  if not text or #text < length then
    s:close()
    return nil, err or "no answer", (first or part or "") ~= ""
  end
  if keep then
    s:setkeepalive(60000, 64)
  else
    s:close()
  end
  return status, text, answered
end

-- feed sends a request to the limiter's feed.
local function feed(line, body, size)
  local s = ngx.socket.tcp()
  s:settimeouts(200, 500, 1500)
  return exchange(s, config.feed, line, "", body, size)
end

-- pause makes the limiter count as gone: nothing is asked for 0.1 s, and for twice as long each time that the probe
-- after it is lost.
local function pause(t)
  silence = t - silent_until < SILENT and math.min(2 * silence, SILENT) or 0.1
  doubt, probe_until, silent_until = true, 0, t + silence
end

-- verify asks the feed whether the limiter is there at all, because one client may have lost its answer by itself.
local function verify(premature)
  local s = ngx.socket.tcp()
  s:settimeouts(1000 * PROBE, 1000 * PROBE, 1000 * PROBE)
  local ok, status = pcall(exchange, s, config.feed, "POST /v1/edge/counts", "", "", 0)
  verifying = false
  if not (ok and status) and not premature and silent_until <= now() then
    pause(now())
  end
end

-- most_are_lost reports whether more than half of the questions of the last second, by at least SOME clients, got not
-- one byte of answer.
local function most_are_lost()
  if 2 * (missing + missing_before) <= asked + asked_before then
    return false
  end
  local n = 0
  for _ in pairs(losers) do
    n = n + 1
  end
  for c in pairs(losers_before) do
    n = n + (losers[c] and 0 or 1)
  end
  return n >= SOME
end

-- missed notes a question without one byte of answer. The questions of a single client do not stop others.
local function missed()
  local t = now()
  unanswered = unanswered + 1
  if half_until <= t then
    turn(t)
  end
  missing, losers[client()] = missing + 1, true
  if probe_until > t or silent_until <= t and most_are_lost() then
    pause(t)
  elseif silent_until <= t and not verifying then
    verifying = true
    ngx.timer.at(0, verify)
  end
end

-- unreadable notes an answer that began and cannot be read. Its request is denied, because only denials are longer than
-- the gateway's buffer, by answer.refusal.
function M.unreadable()
  unread = unread + 1
  complain("the limiter's answer to a question cannot be read, and the request is denied")
end

-- unanswered ends a check without a verdict: it denies a request whose answer began and cannot be read, and allows the
-- others.
function M.unanswered()
  if (var.upstream_header_time or ""):find("%d") then
    unanswered = unanswered + 1 -- the limiter responds that it has no verdict
  elseif (var.upstream_bytes_received or ""):find("[1-9]") then
    M.unreadable()
    return ngx.exit(403)
  else
    forgotten()
    missed()
  end
  return ngx.exit(200)
end

-- Fields that a check sets itself or leaves out.
local own = { host = true, connection = true, ["content-length"] = true, ["transfer-encoding"] = true, te = true,
  upgrade = true, expect = true, ["x-original-host"] = true, ["x-original-uri"] = true, ["x-original-method"] = true,
  ["x-real-ip"] = true, ["x-forwarded-proto"] = true, ["x-request-id"] = true, ["x-hotparam-reports"] = true }

-- check asks about a request, with its fields, and ends it if the limiter denies it.
local function check()
  local id = var.request_id
  ngx.ctx.hotparam_id = id
  local head = { "X-Original-Host: ", var.http_host or "", "\r\nX-Original-URI: ", var.request_uri,
    "\r\nX-Original-Method: ", var.request_method, "\r\nX-Real-IP: ", var.remote_addr, "\r\nX-Forwarded-Proto: ",
    var.scheme, "\r\nX-Request-ID: ", id, "\r\n" }
  if reporting and secret then
    head[#head + 1] = "X-Hotparam-Reports: " .. secret .. "-" .. id .. "\r\n"
  end
  for name, values in pairs(ngx.req.get_headers(0)) do
    if not own[name] and not (config.token and name == "authorization") then
      for _, value in ipairs(type(values) == "table" and values or { values }) do
        head[#head + 1] = name .. ": " .. tostring(value) .. "\r\n"
      end
    end
  end
  local s = ngx.socket.tcp()
  s:settimeouts(config.wait, config.wait, config.wait)
  local status, _, f = exchange(s, config.check, "GET /check", table.concat(head))
  local h = ngx.header
  if status == 200 then
    h["RateLimit"], h["RateLimit-Policy"] = f["ratelimit"], f["ratelimit-policy"]
    ngx.ctx.hotparam_report, ngx.ctx.hotparam_of = f["x-hotparam-report"], f["x-hotparam-key"]
  elseif status == 400 or status == 431 then
    return ngx.exit(status)
  elseif not status and f then
    M.unreadable()
    answer(UNREAD, "", "")
    return ngx.exit(ngx.status)
  elseif not status then
    forgotten()
    return missed()
  elseif status ~= 401 and status ~= 403 then
    unanswered = unanswered + 1 -- the limiter responds that it has no verdict
  else
    remember(f["x-hotparam-key"], f["x-hotparam-reason"], f["x-hotparam-retry-ms"], f["x-hotparam-rule"],
      f["ratelimit-policy"])
    answer(f["x-hotparam-reason"] or "", f["x-hotparam-rule"] or "", f["x-hotparam-key"] or "", f["retry-after"],
      f["ratelimit"], f["ratelimit-policy"], f["set-cookie"])
    return ngx.exit(ngx.status)
  end
end

-- withhold_passes removes the cookies of visitor passes from a request, so that the application does not get them.
local function withhold_passes()
  local cookies = var.http_cookie
  if cookies and cookies:find("hotparam_", 1, true) then
    local rest = ("; " .. cookies):gsub("; *hotparam_%w+=[^;]*", ""):gsub("; *__Host%-hotparam_%w+=[^;]*", "")
    ngx.req.set_header("Cookie", given(rest:gsub("^; *", "")))
  end
end

-- access decides a request and answers it in the access phase, for plugins of gateways. The options are the options of
-- start, and check is the address of the limiter's check.listen (dialect nginx). Hot keys with a cache ask.
function M.access(options)
  if not config then
    out, plugin = {}, true
    M.start(options)
  end
  out.hotparam_retry = nil
  local verdict = M.decide()
  if verdict == "ask" then
    check() -- does not return if the limiter denies the request
  elseif verdict == "deny" then
    local rule, policy, retry = out.hotparam_rule, given(out.hotparam_policy), out.hotparam_retry
    answer(out.hotparam_reason, rule, var.hotparam_key, retry,
      policy and ('"%s";r=0;t=%s'):format(rule, retry), policy)
    return ngx.exit(ngx.status)
  end
  withhold_passes()
end

local function bytes(hex)
  return (hex:gsub("..", function(d) return string.char(tonumber(d, 16)) end))
end

-- line applies a line of the feed about a key or a client.
local function line(l)
  local kind, act, rest = l:match("^([kc]) (%S+) (.*)$")
  if kind == "c" then
    suspects[bytes(rest)] = act == "a" or nil
  elseif act == "-" then
    hot[rest], why[rest] = nil, nil
  elseif act == "a" or act == "d" or act == "c" then
    hot[rest], why[rest] = act == "a" and 0 or act == "d" and -1 or -2, nil
  elseif kind then
    local rule, k = rest:match("^(%S+) (.*)$")
    hot[k] = act == "0" and math.huge or now() + tonumber(act) / 1000
    why[k] = { reason = "blocked", rule = rule, policy = "", feed = true }
  end
end

-- poll asks for changes of the feed once.
local function poll()
  local status, body = feed("GET /v1/edge?since=" .. version .. "&rules=" .. (mine or ""))
  if ngx.worker.exiting() then
    return -- nginx reloads, and aborts waiting calls
  end
  if not status then
    failed = failed + 1
    silent_until = now() + 3
    version = ""
    return become("without limiter", "nothing is asked, cold requests pass: " .. tostring(body))
  end
  silent_until, doubt = 0, false
  if status ~= 200 or body:sub(-4) ~= "end\n" then
    failed, fresh_until = failed + 1, 0
    return become("asking about everything", "the feed answers " .. status)
  end
  local v, form = body:match("^edge 1 (%S+) (%a+)\n")
  if not v then
    failed, fresh_until = failed + 1, 0
    return become("asking about everything", "the feed has another version than 1")
  end
  if form == "all" then
    hot, why, suspects = {}, {}, {}
  end
  local rules, all, bound, i, word_of, by_rule = "", nil, 1e9, 0, nil, nil
  for l in body:gmatch("[^\n]+") do
    local word, value = l:match("^(%a+) ?(.*)$")
    if word == "k" or word == "c" then
      line(l)
      i = i + 1
      if i % 1000 == 0 then
        ngx.sleep(0.001) -- requests come first
      end
    elseif word == "rules" then
      rules = value
    elseif word == "age" then
      age = value
    elseif word == "prefix" then
      prefix = tonumber(value)
    elseif word == "ask" then
      all = value
    elseif word == "longest" then
      bound = tonumber(value)
    elseif word == "reports" then
      word_of = value
    elseif word == "cost" then
      local field, rule = value:match("^(%S+) (.*)$")
      by_rule = by_rule or {}
      by_rule[rule] = field
    end
  end
  version, theirs, longest, fields, secret = v, rules, bound, by_rule, word_of
  if all then
    fresh_until = 0
    return become("asking about everything", all)
  end
  fresh_until = now() + STALE
  if mine and mine ~= theirs then
    return become("asking about everything", "the limiter has rules " .. rules .. ", the file of nginx " .. mine ..
      "; write it again by hotparam gateway, and reload")
  end
  become("deciding", "")
end

local function polls(premature)
  if premature then
    return
  end
  local before = failed
  local ok, err = pcall(poll)
  if not ok then
    failed, fresh_until = failed + 1, 0
    become("asking about everything", tostring(err))
  end
  if not ngx.worker.exiting() then -- nginx waits for a timer without delay, and so for the next poll
    ngx.timer.at(failed > before and 0.2 or fresh_until == 0 and 0.05 or 0, polls)
  end
end

local posting = false

-- post sends the decisions since the last post.
local function post()
  local ss, ks, cs, decided, gone = signs, keys, clients, n, lost
  signs, keys, clients, n, lost = {}, {}, {}, 0, 0
  local body, hex, size = {}, {}, 0
  for i = 1, decided do
    local c = cs[i]
    local text = hex[c]
    if not text then
      text = c:gsub(".", function(b) return ("%02x"):format(b:byte()) end)
      hex[c] = text
    end
    body[i] = ss[i] .. text .. " " .. ks[i] .. "\n"
    size = size + #body[i]
  end
  local status = feed("POST /v1/edge/counts?lost=" .. gone, body, size)
  if status == 204 then
    posted = posted + decided
  else
    lost = lost + gone + decided
  end
end

-- A worker that ends calls it once more, with premature set.
function flush(premature)
  local wait = posting or silent_until > now() and n < MOST
  if n + lost == 0 or wait and not premature then
    return
  end
  posting, due = true, false
  local ok, err
  repeat -- a worker that ends has no later timer
    ok, err = pcall(post)
  until not (ok and n > 0 and ngx.worker.exiting())
  posting = false
  if not ok then
    become("without counts", tostring(err))
  end
end

-- start begins in each worker: feed is the address of the limiter's edge.listen (host:port or unix:/path), token is its
-- token, if it has one.
function M.start(options)
  config = options
  ngx.timer.at(0, polls)
  ngx.timer.every(0.1, flush)
end

-- status writes the state of the worker that answers.
function M.status()
  local size = 0
  for _ in pairs(hot) do
    size = size + 1
  end
  ngx.header["Content-Type"] = "text/plain"
  ngx.say("worker ", ngx.worker.id(), "\nstate ", state, why_state ~= "" and ": " or "", why_state)
  ngx.say("rules ", mine or "-", " of ", theirs or "-", "\nfeed ", version, " age_ms ", age, "\nhot ", size)
  ngx.say("posted ", posted, "\nlost ", lost, "\nfailed ", failed, "\nunanswered ", unanswered, "\nunread ", unread,
    "\nerrors ", errors)
end

return M
