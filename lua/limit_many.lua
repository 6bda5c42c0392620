-- limit_many: judges many requests, one after the other, each all or nothing,
-- as if each were a call of its own at one moment. Last part of the script
-- "decide many".
--
-- KEYS[i]  a state, a string (see limit_prelude), each once; all in one hash slot
-- ARGV[1]  now, unix us; empty: the clock of this server
-- ARGV[2]  ms added to every expiry: 0, and more only where a test gives a now
--          that does not run with the server's clock
-- ARGV[3]  how many shapes follow. A shape is what requests have in common:
-- ARGV[..] how many charges, and five for each charge:
--            kind      't', 'f' or 's'
--            cost      0 peeks; for a key that occurs before in the request, all
--                      its costs so far
--            capacity  0 denies always
--            unit      see limit_prelude, at least 1
--            fill      see limit_prelude, at least 1; 0 for windows
-- then, until the end, groups of equal requests:
-- ARGV[..] shape, how many requests (above 1 only for one charge), and for each
--          charge which of KEYS
--
-- Returns whole numbers, for each group: how many are admitted, which are the
-- first of it, and for each charge:
--   left   cost that fitted before the group
--   reset  us until all is left again, after the group
--   used   (2 or more admitted) of the state after the group, see limit_prelude
--   retry  (not all admitted) us until one more fits, 0 if one does, -1 never
--
-- One round trip: TIME, one MGET, and one SET for each key that changed. Inside
-- Redis 7, for each request of a call with 50: 0.4 us on one hot key, 4.5 us on
-- keys of their own, 8 us on a hot key and two windows of their own. A call with
-- one request costs twice as much as "decide".
--
-- A key that is no string counts as none and is overwritten: it must not fail
-- the requests beside it.

local call, match, format = redis.call, string.match, string.format
local now, slack_ms = tonumber(ARGV[1]), ARGV[2] + 0
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Tables cost more than arithmetic, so records lie one behind the other in a few:
-- a charge of a shape is six of `terms` (judge, kind, cost, capacity, unit,
-- fill), a state is seven of `states` (kind, at, used, unit, aux, and if it has
-- to be written when it ends and whether it ended then before), and the first
-- look at a charge of the request at hand is eight of `looks`: its state, and
-- what look returned.
local terms, shapes, states, looks, reply = {}, {}, {}, {}, {}

-- shapes has for each where its terms begin, and how many charges it has.
local a, c = 4, 0
for s = 1, 2 * ARGV[3], 2 do
  shapes[s], shapes[s + 1], a = c, ARGV[a] + 0, a + 1
  for _ = 1, shapes[s + 1] do
    local kind = ARGV[a]
    terms[c + 1] = kind == 't' and t_judge or kind == 'f' and f_judge or s_judge
    terms[c + 2], terms[c + 3], terms[c + 4] = kind, ARGV[a + 1] + 0, ARGV[a + 2] + 0
    terms[c + 5], terms[c + 6] = ARGV[a + 3] + 0, ARGV[a + 4] + 0
    a, c = a + 5, c + 6
  end
end

-- What is not a state of ours counts as none.
local texts = call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local s = 7 * i - 6
  local kind, at, used, unit, aux = match(texts[i] or '', '^(%l)(%d+) (%d+) (%d+) (%d+)')
  if kind then
    states[s], states[s + 1], states[s + 2], states[s + 3], states[s + 4] = kind, at + 0, used + 0, unit + 0, aux + 0
  else
    states[s], states[s + 1], states[s + 2], states[s + 3], states[s + 4] = false, 0, 0, 0, 0
  end
  states[s + 5], states[s + 6] = false, true
end

-- What a cost does to state s under the terms at c. Returns what <kind>_judge
-- does, but over as a time from the clock it is judged by, which comes last.
local function look(s, c, cost)
  local kind, capacity, unit, fill = terms[c + 2], terms[c + 4], terms[c + 5], terms[c + 6]
  local kind0, at, used, aux, bound = states[s], states[s + 1], states[s + 2], states[s + 4], nil
  local clock = max(now, at) -- time never runs backwards (law U11)
  if kind0 and (kind0 ~= kind or states[s + 3] ~= unit or (kind == 't' and aux ~= fill)) then
    used, aux, bound = adopt(kind0, at, used, states[s + 3], aux, kind, capacity, unit)
    if clock >= bound then
      used, aux = 0, 0
    end
  end
  local left, over, wait, used1, aux1, over1 = terms[c + 1](at, used, aux, clock, cost, capacity, unit, fill)
  if bound then
    over = min(over, max(bound, clock))
  end
  return left, over - clock, wait, used1, aux1, over1, clock
end

local function retry(c, left, over, wait)
  local cost = terms[c + 3]
  if cost <= left or cost == 0 then
    return 0
  elseif cost > terms[c + 4] then
    return -1
  end
  return min(wait, over)
end

local last, r = #ARGV, 0
while a < last do
  local shape, n = 2 * ARGV[a] - 1, ARGV[a + 1] + 0
  local base, charges, k = shapes[shape], shapes[shape + 1], n
  a = a + 1

  c = base
  for l = 1, 8 * charges, 8 do
    a = a + 1
    local s, cost = 7 * ARGV[a] - 6, terms[c + 3]
    local left, over, wait, used1, aux1, over1, clock = look(s, c, cost)
    looks[l], looks[l + 1], looks[l + 2], looks[l + 3] = s, left, over, wait
    looks[l + 4], looks[l + 5], looks[l + 6], looks[l + 7] = used1, aux1, over1, clock
    if k * cost > left then
      k = floor(left / cost)
    end
    c = c + 6
  end
  r = r + 1
  reply[r] = k

  c = base
  for l = 1, 8 * charges, 8 do
    local s, left, cost, reset = looks[l], looks[l + 1], terms[c + 3], 0
    local used1 = 0
    if k > 0 and cost > 0 then
      local aux1, over1, clock = looks[l + 5], looks[l + 6], looks[l + 7]
      used1 = looks[l + 4]
      if k > 1 then
        local _
        _, _, _, used1, aux1, over1 = look(s, c, k * cost)
      end
      reset = over1 - clock
      states[s + 6] = states[s + 6] and looks[l + 2] == reset
      states[s], states[s + 1], states[s + 2] = terms[c + 2], clock, used1
      states[s + 3], states[s + 4], states[s + 5] = terms[c + 5], aux1, over1
    elseif left < terms[c + 4] then
      reset = looks[l + 2]
    end
    reply[r + 1], reply[r + 2], r = left, reset, r + 2
    if k > 1 then
      r = r + 1
      reply[r] = used1
    end
    if k < n then
      r = r + 1
      if k > 0 then
        reply[r] = retry(c, look(s, c, cost))
      else
        reply[r] = retry(c, left, looks[l + 2], looks[l + 3])
      end
    end
    c = c + 6
  end
  a = a + 1
end

-- A state lives until it means nothing, rounded up to ms (laws U8, U9), and one
-- more: the server reckons expiry from the ms the script began in. Expiries that
-- are right already stay, which is half the price.
for i = 1, #KEYS do
  local s = 7 * i - 6
  local over = states[s + 5]
  if over then
    local text = format('%s%d %d %d %d', states[s], states[s + 1], states[s + 2], states[s + 3], states[s + 4])
    if states[s + 6] then
      call('SET', KEYS[i], text, 'KEEPTTL')
    else
      call('SET', KEYS[i], text, 'PX', format('%d', ceil_div(over - now, 1000) + 1 + slack_ms))
    end
  end
end
return reply
