-- limit_exchange: adds what one process has admitted to the sums of windows that
-- many processes share, and says what all have admitted. A script on its own; the
-- states are those of limit_prelude, kinds 'f' and 's', so that a limit may be
-- changed between exact and async without starting afresh.
--
-- KEYS[i]  state of window i, a string; all in one hash slot
-- ARGV[1]  ms added to every expiry, as in "decide"
-- and four for each window:
-- ARGV[..] kind    'f' or 's'
--          unit    the window, us
--          start   when the window began in which it was admitted, unix us
--          cost    what was admitted there since the last exchange; negative where
--                  more was taken back; 0 only asks
--
-- Returns whole numbers, two for each window: what all have admitted in it, and in
-- the window before (0 for 'f'); and last now, unix us.
--
-- Unlike "decide" it never denies: what was admitted was admitted, and the sum may
-- be above the limit, by what is told in hotparam/redisstore/windows.go.
--
-- One round trip: TIME, one GET and one SET a window; inside Redis 7 about 4 us
-- for each.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {}
for i = 1, #KEYS do
  local a = 4 * i - 2
  local kind, unit, start, cost = ARGV[a], ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0
  local most = math.floor(9007199254740991 / unit) -- so that products stay exact
  local at, used, prev = start, 0, 0
  local kind0, at0, used0, unit0, aux0 = string.match(redis.call('GET', KEYS[i]) or '', '^(%l)(%d+) (%d+) (%d+) (%d+)$')
  if kind0 == kind and unit0 == ARGV[a + 1] then
    at, used, prev = at0 + 0, used0 + 0, aux0 + 0
  end
  local begins = at - at % unit
  if begins < start then
    prev = kind == 's' and begins == start - unit and used or 0
    at, used, begins = start, 0, start
  end
  if begins == start then
    used = math.max(0, math.min(most, used + cost))
    at = math.max(at, math.min(now, start + unit - 1))
    reply[2 * i - 1], reply[2 * i] = used, prev
  elseif begins == start + unit and kind == 's' then
    prev = math.max(0, math.min(most, prev + cost))
    reply[2 * i - 1], reply[2 * i] = prev, 0
  else -- too late to count
    reply[2 * i - 1], reply[2 * i] = math.max(0, cost), 0
    cost = 0
  end
  if cost ~= 0 then
    local over = begins + (kind == 's' and 2 or 1) * unit
    local life = math.max(1, math.ceil((over - now) / 1000) + 1)
    redis.call('SET', KEYS[i], string.format('%s%d %d %d %d', kind, at, used, unit, prev), 'PX', string.format('%d', life + ARGV[1]))
  end
end
reply[2 * #KEYS + 1] = now
return reply
