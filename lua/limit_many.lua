-- limit_many: judges many requests, one after the other, each all or nothing, as if each were a call of its own at one
-- moment. Last part of the script "decide many".
--
-- KEYS[i]  a state, a string (see limit_prelude), each once; all in one hash slot
-- ARGV[1]  how many shapes follow. A shape holds the terms that requests have in common:
-- ARGV[..] how many charges, and five for each charge:
--            kind      a kind that "many" has; with a reserve "t<reserve>"; see limit_prelude
--            cost      0 peeks
--            room      see limit_prelude; 0 denies always
--            unit      see limit_prelude, at least 1
--            fill      see limit_prelude, at least 1, or 0 for windows
-- then, until the end, runs of requests of one shape, one behind the other:
-- ARGV[..] shape; negative if another charge used one of the keys before
--          how many requests
--          for each charge two: the number in KEYS of the first request's key, and the
--          step to the key of each next request, or 0 if all use the same key. The
--          keys of one request differ, and a step that is not 0 leads to keys that no
--          earlier request used
--
-- Returns whole numbers, for each request, and once for a run of one charge for
-- one key: how many are allowed, which are the first of it, and for each charge:
--   left   cost that fitted before
--   reset  us until all is left again, after it
--   used   (2 or more allowed) of the state after the run, see limit_prelude
--   retry  (not all allowed) us until one more fits, 0 if one does, -1 never
-- and after all now, which a refund has to name.
--
-- One round trip: TIME, one MGET, and a write for each key that changed. Inside Redis 7, for each request: 0.23 us if
-- 60 ask for one hot key, 3.3 us if 40 ask for keys of their own, 6.3 us if they ask for a hot key and two windows of
-- their own. A call with one bucket costs less than "decide", one with more a little more.
--
-- A key that is not a string counts as absent and is overwritten, because it must not fail the requests beside it.

-- The commonest call takes a shorter way: equal requests for one bucket, whose state was written under the same terms
-- or does not exist. Only five arguments are sent for it: cost, room, unit, fill and the number of requests; and, if
-- there is one, the reserve. It precedes the other kinds, so that their functions and tables are not built: 7 us inside
-- Redis 7 instead of 12, for any number of requests.
--> bucket
if #ARGV < 7 then
  local call, key, tail = redis.call, KEYS[1], ' ' .. ARGV[3] .. ' ' .. ARGV[4]
  local text, digits, at, used, rest = call('MGET', key)[1], 0, 0, 0, tail
  if text then -- digits is where they begin behind the zeros
    digits, at, used, rest = string.match(text, '^t0*()(%d+) (%d+)( .*)$')
  end
  if digits and at + 0 > now + max_ahead then
    digits, at, used, rest = 0, 0, 0, tail
  end
  if rest == tail then
    local cost, room, unit, fill, n = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
    local reserve = ARGV[6] and ARGV[6] + 0
    local capacity = (room - room % unit - (reserve or 0)) / unit
    at, used = at + 0, used + 0
    local clock, k = max(now, at), n -- time never runs backwards (law U11)
    local left, over, wait, used1, _, over1 = t_judge(at, used, 0, clock, cost, room, unit, fill, reserve)
    if n * cost > left then
      k = floor(left / cost)
    end
    if k > 1 then
      _, _, _, used1, _, over1 = t_judge(at, used, 0, clock, k * cost, room, unit, fill, reserve)
    end
    local reset = left < capacity and over - clock or 0
    if k > 0 and cost > 0 then
      reset = over1 - clock
      local new = string.format('t%017d %d%s', clock, used1, tail)
      local ends = t_ends(clock, used1, fill)
      if digits > 2 and #new >= #text and ends == t_ends(at, used, fill) then
        call('SETRANGE', key, '0', new)
      else
        call('SET', key, new, 'PX', string.format('%d', ceil_div(ends - now, 1000) + 1))
      end
    end
    local reply = {k, left, reset, now}
    if k > 1 then
      reply[4], reply[5] = used1, now
    end
    if k < n then
      if cost > capacity then
        wait = -1
      elseif k > 0 then
        _, _, wait = t_judge(clock, used1, 0, clock, cost, room, unit, fill, reserve)
      end
      reply[#reply], reply[#reply + 1] = wait, now
    end
    return reply
  end
end

--> many
local call, match, format = redis.call, string.match, string.format
local names, args = KEYS, ARGV
if #args < 7 then
  args = {1, 1, 't' .. (args[6] or ''), args[1], args[2], args[3], args[4], 1, args[5], 1, 0}
end
local texts = call('MGET', unpack(names))

-- column holds the terms of one charge of a shape, and the state that the charge last used. All of it is in locals,
-- which cost a third of the fields of tables. Returns four functions.
local function column(kind, room, unit_text, fill_text)
  local reserve = #kind > 1 and string.sub(kind, 2) + 0 or nil
  kind = reserve and 't' or kind
  local judge = judge_of(kind)
  local unit, fill = unit_text + 0, fill_text + 0
  local whole = kind == 't' and (room - room % unit) / unit or room -- as in limit_state
  local capacity = reserve and whole - reserve / unit or whole
  -- The form of a state under these terms, and at this moment.
  local tail = kind == 's' and ' %d' or ' ' .. fill_text
  local digits = kind == 't' and '%017d' or '%d'
  local form = ' %d ' .. unit_text .. tail
  local form_now = kind .. format(digits, now) .. form
  local pattern = '^' .. kind .. '(0*)(%d+) (%d+) ' .. unit_text .. (kind == 's' and ' (%d+)$' or tail .. '$')
  -- The state of key i: its text in Redis and its numbers at, used and aux. bound is the time from which on it is the
  -- same as an absent one, or nil if its numbers alone decide. changed is true if it has to be written with the expiry
  -- ends, and stays is true if it has that expiry already. lives is the expiry of a bucket's state.
  local i, text, at, used, aux, bound, changed, ends, stays, lives
  local left, over, wait, used1, aux1, over1, clock -- as judge returned them
  local px, px_ends -- an expiry, as it is written

  local function flush()
    if changed then
      local new
      if at == now then
        new = format(form_now, used, aux)
      else
        new = kind .. format(digits .. form, at, used, aux)
      end
      if not stays then
        -- A state lives until it is the same as an absent one, a bucket's to the end of that second, rounded up to ms
        -- (laws U8, U9), and one more: the server reckons expiry from the ms in which the script began.
        if ends ~= px_ends then
          px, px_ends = format('%d', ceil_div(ends - now, 1000) + 1), ends
        end
        call('SET', names[i], new, 'PX', px)
      elseif #new >= #text then
        call('SETRANGE', names[i], '0', new) -- a third cheaper than SET
      else
        call('SET', names[i], new, 'KEEPTTL')
      end
      texts[i], changed = new, false
    end
    i, bound = nil, nil
  end

  -- inherit reads a state that was written under other terms. A foreign text counts as absent.
  local function inherit()
    local kind0, at0, used0, unit0, aux0 = match(text, '^(%l)0*(%d+) (%d+) (%d+) (%d+)')
    if kind0 and at0 + 0 <= now + max_ahead then
      at = at0 + 0
      clock = max(now, at)
      used, aux, bound = adopt(kind0, at, used0 + 0, unit0 + 0, aux0 + 0, kind, whole, unit)
      if clock >= bound then
        used, aux, bound = 0, 0, nil
      end
    end
  end

  -- look judges a cost against the state of names[key], and returns how much is left before it.
  local function look(key, cost)
    if key ~= i then
      flush()
      i, text, stays, lives, clock = key, texts[key], true, nil, now
      local zeros, at0, used0, aux0
      if text then
        zeros, at0, used0, aux0 = match(text, pattern)
      end
      if at0 and at0 + 0 <= now + max_ahead then
        at, used, aux = at0 + 0, used0 + 0, (aux0 or fill) + 0
        if kind == 't' then
          stays, lives = zeros ~= '', t_ends(at, used, fill)
        end
        if at > now then
          clock = at -- time never runs backwards (law U11)
        end
      else
        at, used, aux = 0, 0, 0
        if text then
          inherit()
        end
      end
    end
    left, over, wait, used1, aux1, over1 = judge(at, used, aux, clock, cost, room, unit, fill, reserve)
    if bound and bound < over then
      over = bound
    end
    return left
  end

  -- charge writes the cost of the last look to the state. It returns when all is left again, and the new used.
  local function charge()
    if kind == 't' then
      over, ends = lives, t_ends(clock, used1, fill)
    else
      ends = over1
    end
    stays = stays and over == ends
    at, used, aux, bound, changed = clock, used1, aux1, nil, true
    return over1 - clock, used1
  end

  -- rest returns when all is left again, and when a cost fits, by the last look.
  local function rest(cost)
    local reset, retry = 0, 0
    if left < capacity then
      reset = over - clock
    end
    if cost > left and cost > 0 then
      retry = -1
      if cost <= capacity then
        retry = min(wait, over - clock)
      end
    end
    return reset, retry
  end

  return look, charge, rest, flush
end

-- Charge l of a shape whose charges begin at c is column c + l.
local looks, charges, rests, flushes, costs, shapes = {}, {}, {}, {}, {}, {}
local a, c = 2, 0
for s = 1, 2 * args[1], 2 do
  shapes[s], shapes[s + 1], a = c, args[a] + 0, a + 1
  for _ = 1, shapes[s + 1] do
    c = c + 1
    looks[c], charges[c], rests[c], flushes[c] = column(args[a], args[a + 2] + 0, args[a + 3], args[a + 4])
    costs[c], a = args[a + 1] + 0, a + 5
  end
end

local reply, r, keys, steps, lefts, last = {}, 0, {}, {}, {}, #args

-- judge_equal judges n requests for one key of column l, as if they came one after the other.
local function judge_equal(l, n)
  local look, cost, key, k = looks[l], costs[l], keys[l], n
  local left, reset, used = look(key, cost), 0, 0
  if n * cost > left then
    k = floor(left / cost)
  end
  if k > 1 then
    look(key, k * cost)
  end
  if k > 0 and cost > 0 then
    reset, used = charges[l]()
  else
    reset = rests[l](cost)
  end
  reply[r + 1], reply[r + 2], reply[r + 3], r = k, left, reset, r + 3
  if k > 1 then
    r = r + 1
    reply[r] = used
  end
  if k < n then
    look(key, cost)
    local _, retry = rests[l](cost)
    r = r + 1
    reply[r] = retry
  end
end

-- No two columns hold the same state, because the columns of another shape write and forget theirs first.
local before, first, final = 0, 1, 0
while a < last do
  local shape, n = args[a] + 0, args[a + 1] + 0
  if shape ~= before then
    for l = first, final do
      flushes[l]()
    end
    before = max(shape, -shape)
    first, final = shapes[2 * before - 1] + 1, shapes[2 * before - 1] + shapes[2 * before]
  end
  a = a + 2
  for l = first, final do
    keys[l], steps[l], a = args[a] + 0, args[a + 1] + 0, a + 2
  end
  if first == final and steps[first] == 0 then
    judge_equal(first, n)
    n = 0
  end
  for _ = 1, n do
    local allowed = 1
    for l = first, final do
      local key, cost = keys[l], costs[l]
      local left = looks[l](key, cost)
      lefts[l], keys[l] = left, key + steps[l]
      if cost > left then
        allowed = 0
      end
    end
    r = r + 1
    reply[r] = allowed
    for l = first, final do
      local cost = costs[l]
      reply[r + 1] = lefts[l]
      if allowed == 0 then
        reply[r + 2], reply[r + 3] = rests[l](cost)
        r = r + 3
      elseif cost > 0 then
        reply[r + 2] = charges[l]()
        r = r + 2
      else
        reply[r + 2] = rests[l](cost)
        r = r + 2
      end
    end
  end
end
for l = first, final do
  flushes[l]()
end
reply[r + 1] = now
return reply
