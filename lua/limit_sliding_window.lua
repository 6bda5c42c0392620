-- limit_sliding_window: kind 's'. Two aligned windows approximate a sliding one; the earlier one weighs by its part
-- still covered, in whole numbers, never rounded. See internal/limitcore/sliding_window.go.
--
-- Cost: O(1), no redis.call.

--> decide refund many
-- s_fits returns the first offset into a window at which prev weighs no more than room, or the window's length if there
-- is no such offset.
local function s_fits(prev, room, unit)
  if prev <= room then
    return 0
  elseif room < 0 then
    return unit
  end
  return unit - floor(room * unit / prev)
end

local function s_judge(at, cur, prev, now, cost, capacity, unit)
  local e = now % unit
  local start = now - e
  if at < start then
    prev = at >= start - unit and cur or 0
    cur = 0
  end
  local over = now
  if cur > 0 then
    over = start + 2 * unit
  elseif prev > 0 then
    over = start + unit
  end
  local left = capacity - cur
  if prev > 0 then
    left = left - ceil_div(prev * (unit - e), unit)
  end
  if left < 0 then
    left = 0
  end
  if cost > left then
    -- Weights only fall: try this window, then the next one, in which cur is the earlier count. After that nothing
    -- weighs any more.
    local wait = s_fits(prev, capacity - cur - cost, unit)
    if wait == unit then
      wait = unit + s_fits(cur, capacity - cost, unit)
    end
    return left, over, wait - e
  end
  return left, over, 0, cur + cost, prev, start + 2 * unit
end

--> adopt
local function s_taken(at, cur, unit, prev)
  local ends = at - at % unit + unit
  local taken = cur + ceil_div(prev * (ends - at), unit)
  if cur > 0 then
    ends = ends + unit
  end
  return taken, ends
end

--> refund
local function s_refund(at, used, aux, ticks, when, cost, _, unit)
  local start, charged = at - at % unit, when - when % unit
  if charged == start then
    used = max(0, used - cost)
  elseif charged == start - unit then
    aux = max(0, aux - cost)
  end
  return used, aux, ticks
end
