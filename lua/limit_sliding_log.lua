-- limit_sliding_log: kind 'l'. An allowed cost is remembered by its tick, the time itself (fill 0) or the end of its
-- bucket of fill us; ticks of the last unit us count. See internal/limitcore/sliding_log.go.
--
-- After the numbers of its state follow the ticks, oldest first, in fixed width, so that they can be searched in place:
-- 15 bytes of the sum before them; then for each 16 bytes of its time, us, and 15 of the sum up to it. They are padded
-- with spaces, and sums are modulo 10^15.
--
-- Cost: O(log ticks) and no redis.call, but the state is read and written whole, 31 bytes a tick.

--> decide refund
local l_wrap = 1000000000000000

local function l_judge(_, used, newest, now, cost, capacity, unit, fill, _, ticks)
  local sub, format = string.sub, string.format
  if not ticks then -- no ticks, or all in one tick
    ticks = format('%15d', 0)
    if used > 0 then
      ticks = ticks .. format('%16d%15d', newest, used)
    end
  end
  local n = (#ticks - 15) / 31
  local function at(i)
    return sub(ticks, 31 * i - 15, 31 * i) + 0
  end
  local total = sub(ticks, -15) + 0
  local function since(i) -- the cost of the ticks after i
    local cost_of = total - sub(ticks, 31 * i + 1, 31 * i + 15)
    return cost_of < 0 and cost_of + l_wrap or cost_of
  end

  local gone, high = 0, n -- ticks up to gone are over
  while gone < high do
    local mid = floor((gone + high + 1) / 2)
    if at(mid) <= now - unit then
      gone = mid
    else
      high = mid - 1
    end
  end
  local live = since(gone)
  local left, over = max(0, capacity - live), now
  if n > gone then
    newest = at(n)
    over = newest + unit
  end
  if cost == 0 or cost > capacity then
    return left, over, 0
  elseif cost > left then
    local low = gone + 1 -- the first tick after which enough is free
    high = n
    while low < high do
      local mid = floor((low + high) / 2)
      if since(mid) <= capacity - cost then
        high = mid
      else
        low = mid + 1
      end
    end
    return left, over, at(low) + unit - now
  end

  local tick = fill > 0 and now - now % fill + fill or now
  local last = -1
  if n > gone then
    tick = max(tick, newest)
    if tick == newest then
      last = 31 * n - 16 -- it is replaced
    end
  end
  local sum = total + cost
  if sum >= l_wrap then
    sum = sum - l_wrap
  end
  return left, over, 0, live + cost, tick, tick + unit,
    sub(ticks, 31 * gone + 1, last) .. format('%16d%15d', tick, sum)
end

--> adopt
local function l_taken(_, used, unit, newest)
  return used, newest + unit
end

local function l_adopt(taken, at)
  return taken, at
end

--> refund
-- l_reduce subtracts cost from the tick at `stamp`, and removes empty ticks from the end. It returns the ticks, the
-- subtracted cost, and the newest remaining tick or 0.
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

local function l_refund(at, used, newest, ticks, when, cost, _, unit, fill)
  if used > 0 and ticks then
    local back
    local stamp = fill > 0 and when - when % fill + fill or when
    ticks, back, newest = l_reduce(ticks, stamp, cost)
    if stamp > at - unit then
      used = used - back
    end
  end
  return used, newest, ticks
end
