
-- limit_anchored_window: a part of "decide"; see limit_prelude. A window begins
-- with the first cost it admits, at aux, and admits the capacity. The story is
-- told in hotparam/limit/anchored_window.go.
--
-- Cost: O(1), no redis.call.

local function a_judge(_, used, start, now, cost, capacity, unit)
  if used == 0 or now >= start + unit then
    used, start = 0, now
  end
  local ends, over = start + unit, now
  if used > 0 then
    over = ends
  end
  return max(0, capacity - used), over, ends - now, used + cost, start, ends
end
