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
-- One bucket alone goes a shorter way, see limit_one_bucket.
--
-- Returns whole numbers, for each group: how many are admitted, which are the
-- first of it, and for each charge:
--   left   cost that fitted before the group
--   reset  us until all is left again, after the group
--   used   (2 or more admitted) of the state after the group, see limit_prelude
--   retry  (not all admitted) us until one more fits, 0 if one does, -1 never
-- and after all groups now, which a refund has to name.
--
-- One round trip: TIME, one MGET, and one SET for each key that changed. Inside
-- Redis 7, for each request: 0.23 us where 60 ask for one hot key, 4 us where 42
-- ask for keys of their own, 7 us where they ask for a hot key and two windows of
-- their own. Of those 7 us, 3 are the two SETs, 1 the reading and 1 the writing of
-- texts. A call with one request costs a little more than "decide".
--
-- A key that is no string counts as none and is overwritten: it must not fail
-- the requests beside it.

local call, match, format = redis.call, string.match, string.format
local now, slack_ms = tonumber(ARGV[1]), ARGV[2] + 0
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Tables and calls cost more than arithmetic. Records lie one behind the other: a
-- charge of a shape is eight of `terms` (judge, kind, cost, capacity, unit, fill,
-- the pattern of a state written under these terms, and how one is written), the
-- first look at a charge of the request at hand is six of `looks`: its state, and
-- of what look returned all but wait. Of state i there are the five numbers of its
-- text, each in a table, and if it has to be written how, when it ends, and
-- whether it ended then before.
local terms, shapes, looks, reply = {}, {}, {}, {}
local kinds, ats, useds, units, auxs, forms, overs, stays = {}, {}, {}, {}, {}, {}, {}, {}

-- shapes has for each where its terms begin, and how many charges it has.
local a, c = 4, 0
for s = 1, 2 * ARGV[3], 2 do
  shapes[s], shapes[s + 1], a = c, ARGV[a] + 0, a + 1
  for _ = 1, shapes[s + 1] do
    local kind, unit, fill = ARGV[a], ARGV[a + 3], ARGV[a + 4]
    terms[c + 1] = kind == 't' and t_judge or kind == 'f' and f_judge or s_judge
    terms[c + 2], terms[c + 3], terms[c + 4] = kind, ARGV[a + 1] + 0, ARGV[a + 2] + 0
    terms[c + 5], terms[c + 6] = unit + 0, fill + 0
    if kind == 's' then
      terms[c + 7], terms[c + 8] = '^s(%d+) (%d+) ' .. unit .. ' (%d+)$', 's%d %d ' .. unit .. ' %d'
    else
      terms[c + 7] = '^' .. kind .. '(%d+) (%d+) ' .. unit .. ' ' .. fill .. '$'
      terms[c + 8] = kind .. '%d %d ' .. unit .. ' ' .. fill
    end
    a, c = a + 5, c + 8
  end
end

local texts = call('MGET', unpack(KEYS))

-- Reads state i, most likely one that was written under the terms at c. What is
-- not a state of ours counts as none.
local function read(i, c)
  local text = texts[i]
  if text then
    local kind, unit = terms[c + 2], terms[c + 5]
    local at, used, aux = match(text, terms[c + 7])
    if at then
      aux = aux or terms[c + 6]
    else
      kind, at, used, unit, aux = match(text, '^(%l)(%d+) (%d+) (%d+) (%d+)')
    end
    if kind then
      kinds[i], ats[i], useds[i], units[i], auxs[i] = kind, at + 0, used + 0, unit + 0, aux + 0
      return
    end
  end
  kinds[i], ats[i], useds[i], units[i], auxs[i] = false, 0, 0, 0, 0
end

-- What a cost does to state i under the terms at c. Returns what <kind>_judge
-- does, and the clock it is judged by.
local function look(i, c, cost)
  local kind0 = kinds[i]
  if kind0 == nil then
    read(i, c)
    kind0 = kinds[i]
  end
  local kind, unit, fill = terms[c + 2], terms[c + 5], terms[c + 6]
  local at, clock = ats[i], now
  if at > now then
    clock = at -- time never runs backwards (law U11)
  end
  if kind0 == kind and units[i] == unit and (kind ~= 't' or auxs[i] == fill) then
    local left, over, wait, used1, aux1, over1 = terms[c + 1](at, useds[i], auxs[i], clock, cost, terms[c + 4], unit, fill)
    return left, over, wait, used1, aux1, over1, clock
  end
  local used, aux, bound = 0, 0, clock
  if kind0 then
    used, aux, bound = adopt(kind0, at, useds[i], units[i], auxs[i], kind, terms[c + 4], unit)
    if clock >= bound then
      used, aux, bound = 0, 0, clock
    end
  end
  local left, over, wait, used1, aux1, over1 = terms[c + 1](at, used, aux, clock, cost, terms[c + 4], unit, fill)
  return left, min(over, bound), wait, used1, aux1, over1, clock
end

-- How long a cost has to wait that was denied by state i, 0 if it fits.
local function retry(i, c)
  local cost = terms[c + 3]
  local left, over, wait, _, _, _, clock = look(i, c, cost)
  if cost <= left or cost == 0 then
    return 0
  elseif cost > terms[c + 4] then
    return -1
  end
  return min(wait, over - clock)
end

local last, r = #ARGV, 0
while a < last do
  local shape, n = 2 * ARGV[a] - 1, ARGV[a + 1] + 0
  local base, ends, k = shapes[shape], 6 * shapes[shape + 1], n
  a = a + 1

  c = base
  for l = 1, ends, 6 do
    a = a + 1
    local i, cost = ARGV[a] + 0, terms[c + 3]
    local left, over, _, used1, aux1, over1 = look(i, c, cost)
    looks[l], looks[l + 1], looks[l + 2] = i, left, over
    looks[l + 3], looks[l + 4], looks[l + 5] = used1, aux1, over1
    if k * cost > left then
      k = floor(left / cost)
    end
    c = c + 8
  end
  r = r + 1
  reply[r] = k

  c = base
  for l = 1, ends, 6 do
    local i, left, cost, reset, used1 = looks[l], looks[l + 1], terms[c + 3], 0, 0
    local clock = ats[i]
    if clock < now then
      clock = now
    end
    if k > 0 and cost > 0 then
      local aux1, over1 = looks[l + 4], looks[l + 5]
      used1 = looks[l + 3]
      if k > 1 then
        local _
        _, _, _, used1, aux1, over1 = look(i, c, k * cost)
      end
      reset = over1 - clock
      stays[i] = looks[l + 2] == over1 and stays[i] ~= false
      kinds[i], ats[i], useds[i], units[i], auxs[i] = terms[c + 2], clock, used1, terms[c + 5], aux1
      forms[i], overs[i] = terms[c + 8], over1
    elseif left < terms[c + 4] then
      reset = looks[l + 2] - clock
    end
    reply[r + 1], reply[r + 2], r = left, reset, r + 2
    if k > 1 then
      r = r + 1
      reply[r] = used1
    end
    if k < n then
      r = r + 1
      reply[r] = retry(i, c)
    end
    c = c + 8
  end
  a = a + 1
end

-- A state lives until it means nothing, rounded up to ms (laws U8, U9), and one
-- more: the server reckons expiry from the ms the script began in. Expiries that
-- are right already stay, which is half the price.
for i = 1, #KEYS do
  local over = overs[i]
  if over then
    local text = format(forms[i], ats[i], useds[i], auxs[i])
    if stays[i] then
      call('SET', KEYS[i], text, 'KEEPTTL')
    else
      call('SET', KEYS[i], text, 'PX', format('%d', ceil_div(over - now, 1000) + 1 + slack_ms))
    end
  end
end
reply[r + 1] = now
return reply
