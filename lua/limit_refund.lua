-- limit_refund: takes back what charges of one request took that were admitted
-- here, because another store or another node denied the request. Last part of
-- the script "refund"; see limit_prelude.
--
-- KEYS[i]  state of charge i, a string; all in one hash slot
-- and six for each charge, as it was admitted:
-- ARGV[..] kind, cost, capacity, unit, fill; see limit_decide
--          when it was admitted, unix us: what "decide" said was now; below 0: so
--          many us before now
--
-- Returns whole numbers, three for each charge: remaining and reset, as after a
-- cost of 0, and 0 where the state was written under other terms since, so that
-- the charge stays, else 1.
--
-- It gives back at most what was charged, and never so much that more could pass
-- than if the charge had not been made: what has run back into a bucket by itself
-- or belongs to a window that is over is not given twice, and a state that was
-- written under other terms since stays as it is. Who sends it twice gives twice.
-- The stories are told in hotparam/limit (the functions named refund).
--
-- One round trip: TIME, two GETs and at most one SET a charge. Expiries stay: a
-- state that lives too long means what no state means.

local time, when = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function start_of(at, unit) return at - at % unit end

-- Takes cost out of the tick of `stamp`, and the ticks of nothing off the end.
-- Returns the ticks, how much it was and the newest tick left, 0 for none.
local function l_reduce(ticks, stamp, cost)
  local n = (#ticks - 15) / 31
  local function sum(i) return string.sub(ticks, 31 * i + 1, 31 * i + 15) + 0 end
  local function at(i) return string.sub(ticks, 31 * i - 15, 31 * i) + 0 end
  local low, high = 1, n + 1 -- the first tick not before stamp
  while low < high do
    local mid = floor((low + high) / 2)
    if at(mid) < stamp then low = mid + 1 else high = mid end
  end
  if low > n or at(low) ~= stamp then
    return ticks, 0, n > 0 and at(n) or 0
  end
  local own = (sum(low) - sum(low - 1)) % l_wrap
  local back, parts = min(cost, own), {string.sub(ticks, 1, 31 * low - 16)}
  for i = low, n do
    parts[#parts + 1] = string.format('%16d%15d', at(i), (sum(i) - back) % l_wrap)
  end
  ticks = table.concat(parts)
  while n > 0 and sum(n) == sum(n - 1) do
    n = n - 1
    ticks = string.sub(ticks, 1, 31 * n + 15)
  end
  return ticks, back, n > 0 and at(n) or 0
end

-- Gives back what one charge took from a state of its own terms. Returns used,
-- aux and ticks.
local function give_back(kind, at, used, aux, ticks, cost, unit, fill)
  if kind == 't' then
    local elapsed = at - when
    if elapsed < ceil_div(cost * unit, fill) then
      used = max(0, used - (cost * unit - fill * max(0, elapsed)))
    end
  elseif kind == 'f' then
    if start_of(when, unit) == start_of(at, unit) then
      used = max(0, used - cost)
    end
  elseif kind == 's' then
    local start, mine = start_of(at, unit), start_of(when, unit)
    if mine == start then
      used = max(0, used - cost)
    elseif mine == start - unit then
      aux = max(0, aux - cost)
    end
  elseif kind == 'a' then
    -- The charge that began a window is given back only with nothing after it.
    if when >= aux and when < aux + unit and (when > aux or at == aux or used <= cost) then
      used = max(0, used - cost)
    end
  elseif kind == 'w' then
    used, aux = w_refund(used, aux, max(0, at - when), cost, unit, fill)
  elseif used > 0 then
    local back
    local stamp = fill > 0 and when - when % fill + fill or when
    ticks, back, aux = l_reduce(ticks, stamp, cost)
    if stamp > at - unit then
      used = used - back
    end
  end
  return used, aux, ticks
end

-- All are given back before any is looked at: a key may be there twice.
local reply = {}
for pass = 1, 2 do
  for i = 1, #KEYS do
    local a = 6 * i - 5
    local kind, cost, capacity, unit, fill = ARGV[a], ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4]
    if kind ~= 'w' then
      fill = fill + 0
    end
    when = ARGV[a + 5] + 0
    when = when < 0 and now + when or when
    local at, used, aux, ticks, clock, bound, owns = 0, 0, 0, nil, now, nil, false
    local raw = redis.call('GET', KEYS[i])
    local kind0, at0, used0, unit0, aux0, rest = string.match(raw or '', '^(%l)(%d+) (%d+) (%d+) (%d+)()')
    if kind0 then
      at, used, aux = at0 + 0, used0 + 0, aux0 + 0
      clock = max(now, at)
      owns = kind0 == kind and unit0 == ARGV[a + 3] and (kind ~= 't' or aux0 == ARGV[a + 4])
      if owns and kind == 'l' then
        ticks = string.sub(raw, rest + 1)
      end
    end
    if pass == 1 then
      if owns and cost > 0 and cost <= capacity and not (kind == 't' and used > capacity * unit) then
        used, aux, ticks = give_back(kind, at, used, aux, ticks, cost, unit, fill)
        local text = string.format('%s%d %d %d %d', kind, at, used, unit, aux)
        redis.call('SET', KEYS[i], ticks and text .. ' ' .. ticks or text, 'KEEPTTL')
      end
    else
      if kind0 and not owns then
        used, aux, bound = adopt(kind0, at, used, unit0 + 0, aux, kind, capacity, unit, fill)
        if clock >= bound then
          used, aux = 0, 0
        end
      end
      local judge = kind == 't' and t_judge or kind == 'f' and f_judge or kind == 's' and s_judge
        or kind == 'a' and a_judge or kind == 'l' and l_judge or w_judge
      local left, over, wait = judge(at, used, aux, clock, 0, capacity, unit, fill, ticks)
      over = bound and min(over, max(bound, clock)) or over
      if kind == 'w' then
        over = min(over, clock + wait)
      end
      reply[3 * i - 2], reply[3 * i - 1] = left, left < capacity and over - clock or 0
      reply[3 * i] = (owns or not kind0) and 1 or 0
    end
  end
end
return reply
