-- limit_fixed_window: kind 'f'. Windows lie at the multiples of their length since
-- the epoch; each allows the capacity. See internal/limitcore/fixed_window.go.
--
-- Cost: O(1), no redis.call.

--> decide refund many
local function f_judge(at, used, _, now, cost, capacity, unit)
  local start = now - now % unit
  local ends = start + unit
  if at < start then
    used = 0
  end
  local left, over = capacity - used, now
  if used > 0 then
    over = ends
  end
  if left < 0 then
    left = 0
  end
  return left, over, ends - now, used + cost, 0, ends
end

--> adopt
local function f_taken(at, used, unit)
  return used, at - at % unit + unit
end

--> refund
local function f_refund(at, used, aux, ticks, when, cost, _, unit)
  if when - when % unit == at - at % unit then
    used = max(0, used - cost)
  end
  return used, aux, ticks
end
