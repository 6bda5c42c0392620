-- limit_token_bucket: kind 't'. A bucket starts full; missing units run back evenly, fill units a microsecond, and unit
-- units are a token. All is left again when no more units are missing than room has beyond whole tokens; room has such
-- units only with a wait. A charge with a reserve is judged as if the bucket had as many units less, but its state is
-- cut to the whole room, since charges with a smaller reserve use it too. See internal/limitcore/token_bucket.go.
--
-- Cost: O(1), no redis.call.

--> decide refund many
local function t_judge(at, used, _, now, cost, room, unit, fill, reserve)
  local missing, over, slack = 0, now, room % unit
  if used > 0 then
    if used > room then
      used = room
    end
    missing = used - fill * (now - at)
    if missing > slack then
      over = now + ceil_div(missing - slack, fill)
    elseif missing < 0 then
      missing = 0
    end
  end
  local left = room - missing
  if reserve then
    room, left = room - reserve, max(0, left - reserve)
  end
  left = (left - left % unit) / unit
  if cost > left then
    return left, over, ceil_div(missing - (room - cost * unit), fill)
  end
  missing = missing + cost * unit
  return left, over, 0, missing, fill, now + ceil_div(missing - slack, fill)
end

--> many
-- t_ends returns the expiry of a state: the end of the second in which all of it is regained. So the expiry stays the
-- same for a second at a time, no matter how often a bucket is charged. A state that was written with this expiry has
-- an "at" of 17 digits. Patterns leave its zeros out, because miniredis would take it for an octal number.
local function t_ends(at, used, fill)
  local over = at + used / fill
  return over - over % 1000000 + 1000000
end

--> adopt
local function t_taken(at, used, unit, fill)
  if fill > 0 then
    return ceil_div(used, unit), at + ceil_div(used, fill)
  end
end

local function t_adopt(taken, _, unit)
  return taken * unit, 0
end

--> refund
local function t_refund(at, used, aux, ticks, when, cost, room, unit, fill)
  local elapsed = at - when
  if used <= room and elapsed < ceil_div(cost * unit, fill) then
    used = max(0, used - (cost * unit - fill * max(0, elapsed)))
  end
  return used, aux, ticks
end
