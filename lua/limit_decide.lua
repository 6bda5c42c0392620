
-- limit_decide: judges the charges of one request, all or nothing. Last part of
-- the script "decide".
--
-- KEYS[i]  state of charge i, a string (see limit_prelude); all in one hash slot
-- ARGV[1]  now, unix us; empty: the clock of this server
-- ARGV[2]  ms added to every expiry: 0, and more only where a test gives a now
--          that does not run with the server's clock
-- and five for each charge:
-- ARGV[..] kind      't', 'f', 's', 'a' or 'l'
--          cost      0 peeks; for a key that occurs before, all its costs so far
--          capacity  0 denies always
--          unit      see limit_prelude, at least 1
--          fill      see limit_prelude, at least 1; 0 for windows
--
-- Returns {admitted, and four for each charge: allowed, remaining, retry, reset},
-- whole numbers; admitted and allowed 1 or 0, retry and reset in us, retry -1
-- for never. A request that is not admitted has written nothing (law U1), and
-- remaining and reset of all its charges are those before it.
--
-- One round trip: TIME, one GET a charge, and if admitted one SET a charge.
-- Inside Redis 7: 10 us for a bucket and 7 us when it denies; 20 us and 12 us
-- for a bucket and two windows. The calls alone are 4.5 us and 8.5 us of it.

local now, slack_ms = tonumber(ARGV[1]), ARGV[2] + 0
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local reply, writes = {1}, {}
for i = 1, #KEYS do
  local a = 5 * i - 2
  local kind, cost, capacity, unit, fill = ARGV[a], ARGV[a + 1] + 0, ARGV[a + 2] + 0, ARGV[a + 3] + 0, ARGV[a + 4] + 0
  local judge = kind == 't' and t_judge or kind == 'f' and f_judge or kind == 's' and s_judge or kind == 'a' and a_judge or l_judge

  local at, used, aux, bound, clock, ticks = 0, 0, 0, nil, now, nil
  local raw = redis.call('GET', KEYS[i])
  if raw then
    local kind0, at0, used0, unit0, aux0, rest = string.match(raw, '^(%l)(%d+) (%d+) (%d+) (%d+)()')
    if kind0 then
      at, used, aux = at0 + 0, used0 + 0, aux0 + 0
      clock = max(now, at) -- time never runs backwards (law U11)
      if kind0 ~= kind or unit0 ~= ARGV[a + 3] or (kind == 't' and aux0 ~= ARGV[a + 4]) then
        used, aux, bound = adopt(kind0, at, used, unit0 + 0, aux, kind, capacity, unit)
        if clock >= bound then
          used, aux = 0, 0
        end
      elseif kind == 'l' then
        ticks = string.sub(raw, rest + 1)
      end
    end
  end

  local left, over, wait, used1, aux1, over1, ticks1 = judge(at, used, aux, clock, cost, capacity, unit, fill, ticks)
  over = bound and min(over, max(bound, clock)) or over

  local allowed, retry = 1, 0
  if cost > left and cost > 0 then
    allowed, retry, reply[1] = 0, -1, 0
    if cost <= capacity then
      retry = min(wait, over - clock)
    end
  end
  local r = 4 * i - 2
  reply[r], reply[r + 1], reply[r + 2] = allowed, left, retry
  reply[r + 3] = left < capacity and over - clock or 0

  if cost > 0 and reply[1] == 1 then
    -- The state lives until it means nothing, rounded up to ms (laws U8, U9),
    -- and one more: the server reckons expiry from the ms the script began in.
    local w = #writes
    writes[w + 1], writes[w + 2] = i, string.format('%s%d %d %d %d', kind, clock, used1, unit, aux1)
    if ticks1 then
      writes[w + 2] = writes[w + 2] .. ' ' .. ticks1
    end
    writes[w + 3], writes[w + 4] = ceil_div(over1 - now, 1000) + 1 + slack_ms, over1 - clock
  end
end

if reply[1] == 1 then
  for w = 1, #writes, 4 do
    local i = writes[w]
    redis.call('SET', KEYS[i], writes[w + 1], 'PX', writes[w + 2])
    reply[4 * i - 1] = reply[4 * i - 1] - ARGV[5 * i - 1]
    reply[4 * i + 1] = writes[w + 3]
  end
end
return reply
