
-- limit_fixed_window: a part of "decide"; see limit_prelude. Windows lie at the
-- multiples of their length since the epoch; each admits the capacity. The story
-- is told in hotparam/limit/fixed_window.go.
--
-- Cost: O(1), no redis.call.

local function f_judge(at, used, _, now, cost, capacity, unit)
  local ends = now - now % unit + unit
  if at < ends - unit then
    used = 0
  end
  local over = now
  if used > 0 then
    over = ends
  end
  return max(0, capacity - used), over, ends - now, used + cost, 0, ends
end

local function f_taken(at, used, unit)
  return used, at - at % unit + unit
end
