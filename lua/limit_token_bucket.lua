
-- limit_token_bucket: a part of "decide"; see limit_prelude. A bucket starts
-- full; what is missing runs back evenly, fill units a microsecond, unit of them
-- a token. The story is told in hotparam/limit/token_bucket.go.
--
-- Cost: O(1), no redis.call.

local function t_judge(at, used, _, now, cost, capacity, unit, fill)
  local missing, over, room = 0, now, capacity * unit
  if used > 0 then
    if used > room then
      used = room
    end
    over = at + ceil_div(used, fill)
    if now < over then
      missing = used - fill * (now - at)
    else
      over = now
    end
  end
  local left = room - missing
  left = (left - left % unit) / unit
  if cost > left then
    return left, over, ceil_div(missing - (capacity - cost) * unit, fill)
  end
  missing = missing + cost * unit
  return left, over, 0, missing, fill, now + ceil_div(missing, fill)
end

local function t_taken(at, used, unit, fill)
  return ceil_div(used, unit), at + ceil_div(used, fill)
end
