-- limit_anchored_window: kind 'a'. A window begins with the first cost it allows, at
-- aux, and allows the capacity. See internal/limitcore/fixed_window.go.
--
-- Cost: O(1), no redis.call.

--> decide refund
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

--> adopt
local function a_taken(_, used, unit, start)
  return used, start + unit
end

local function a_adopt(taken, at)
  return taken, at
end

--> refund
-- The charge that began a window is refunded only with nothing after it.
local function a_refund(at, used, start, ticks, when, cost, _, unit)
  if when >= start and when < start + unit and (when > start or at == start or used <= cost) then
    used = max(0, used - cost)
  end
  return used, start, ticks
end
