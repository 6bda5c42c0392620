
-- limit_fixed_window: a part of "decide"; see limit_prelude. Windows lie at the
-- multiples of their length since the epoch; each admits the capacity. The story
-- is told in hotparam/limit/fixed_window.go.
--
-- Cost: O(1), no redis.call.

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

local function f_taken(at, used, unit)
  return used, at - at % unit + unit
end
