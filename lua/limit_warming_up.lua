-- limit_warming_up: kind 'w'. Calls leave at a rate, and further apart while it is cold. Its fill is three numbers:
-- units that a call takes, units of the warm-up, and units that may be owed for the calls before. See
-- internal/limitcore/warming_up.go.
--
-- Cost: O(1), no redis.call.

--> decide refund
-- w_cold returns the price of the cold up to a warmth, beyond the usual price: 2y less floor(2y * y / warm_up), in
-- pieces of 8 bits of y, since 2y * y is too large. Each sum is below 2^53, as warm_up is below 2^44.
local function w_cold(warmth, warm_up)
  local y = min(warmth, (warm_up - warm_up % 2) / 2)
  local rest, place, quotient, carry = y, 1099511627776, 0, 0
  while place >= 1 do
    local piece = rest % place
    carry = carry * 256 + 2 * y * ((rest - piece) / place)
    quotient = quotient * 256 + (carry - carry % warm_up) / warm_up
    carry, rest, place = carry % warm_up, piece, place / 256
  end
  return 2 * y - quotient
end

local function w_terms(fill)
  local call, warm_up, queue = string.match(fill, '^(%d+) (%d+) (%d+)$')
  return call + 0, warm_up + 0, queue + 0
end

-- The wait of w_judge is also when all is left again. It returns two more values: the wait after the cost, and how long
-- the cost has to wait.
local function w_judge(at, used, aux, now, cost, capacity, unit, fill)
  local call, warm_up, queue = w_terms(fill)
  local over = max(now, at + ceil_div(used, unit))
  local level = now < over and used - unit * (now - at) or 0
  local left = min(aux, level)
  local debt = level - left
  local warmth = max(0, min(aux, warm_up) - (aux - left))
  local wait, owed = ceil_div(max(0, debt - queue), unit), ceil_div(debt, unit)
  if cost > 0 and cost <= capacity then
    local warmer = warmth + cost * call
    debt = debt + cost * call + w_cold(warmer, warm_up) - w_cold(warmth, warm_up)
    warmth = warmer
  end
  return wait > 0 and 0 or capacity, over, wait, debt + warmth, warmth, now + ceil_div(debt + warmth, unit), nil,
    ceil_div(max(0, debt - queue), unit), owed
end

--> adopt
-- The state does not contain how much of its time is a call, so all of it counts.
local function w_taken(at, used, unit)
  return 9007199254740991, at + ceil_div(used, unit)
end

-- A warm-up at another rate keeps its times, rounded to us.
local function w_adopt(taken, _, unit, fill, kind0, used, unit0, aux)
  if kind0 == 'w' then
    local level = min(ceil_div(used, unit0), floor(9007199254740991 / unit))
    return level * unit, min(floor(aux / unit0), level) * unit
  end
  return taken * string.match(fill, '^%d+'), 0
end

--> refund
local function w_refund(at, used, aux, ticks, when, cost, _, unit, fill)
  local call, warm_up = w_terms(fill)
  local warmth, elapsed = max(0, aux - cost * call), max(0, at - when)
  local back = 2 * cost * call + w_cold(aux, warm_up) - w_cold(warmth, warm_up)
  if elapsed < ceil_div(back, unit) then
    used = max(0, used - (back - unit * elapsed))
    aux = min(warmth, used)
  end
  return used, aux, ticks
end
