-- limit_decide: judges the charges of one request, all or nothing. Last part of the script "decide".
--
-- KEYS[i]  state of charge i, a string (see limit_prelude), and after the states of all
--          charges the blocks of the charges that have one, each "<until> <length>"
--          in us; all in one hash slot
-- ARGV[1]  how many charges
-- and five for each charge:
-- ARGV[..] kind      't', 'f', 's', 'a', 'l' or 'w'; with a reserve "t<reserve>"; see limit_prelude
--          cost      0 peeks; for a key that occurs before, all its costs so far
--          room      see limit_prelude; 0 denies always
--          unit      see limit_prelude, at least 1
--          fill      see limit_prelude, at least 1, or 0 for windows; for 'w' see limit_warming_up
-- and only for charges of buckets that do not start full, or that block, five:
-- ARGV[..] which     number of the charge
--          lack      units missing from the bucket of an unknown subject, or 0 for others
--          keep      ms that a full bucket is remembered for that reason, or 0 for others
--          block     us that a denial blocks the subject, or 0 for no block
--          longest   us that a block may grow to, at least block
--
-- Returns {request allowed, four for each charge: allowed, remaining, retry, reset, and now, which a refund has to
-- name}, whole numbers. allowed is 1 or 0; retry and reset are in us; retry is -1 for never, and the time that an
-- allowed cost of 'w' has to wait. A request that is not allowed has written nothing (law U1), and remaining and reset
-- of all its charges are the values before it. The two exceptions are configured: a bucket that does not start full is
-- remembered from its first call on (internal/limitcore/token_bucket.go), and a denial that waiting helps begins a
-- block (hotparam/limit/take.go).
--
-- One round trip: TIME, one GET a charge and one a block, and if allowed one SET a charge. Inside Redis 7: 10 us for a
-- bucket and 7 us when it denies; 20 us and 12 us for a bucket and two windows. The calls alone are 4.5 us and 8.5 us
-- of it.

local n, refunds = ARGV[1] + 0, false
local extras, begun = nil, nil
if #ARGV > 1 + 5 * n then
  extras, begun = {}, {}
  local key = n
  for a = 2 + 5 * n, #ARGV, 5 do
    local e = {lack = ARGV[a + 1] + 0, keep = ARGV[a + 2] + 0, block = ARGV[a + 3] + 0, longest = ARGV[a + 4] + 0}
    if e.block > 0 then
      key = key + 1
      e.key = KEYS[key]
    end
    extras[ARGV[a] + 0] = e
  end
end

local reply, writes = {1}, {}
for i = 1, n do
  local a = 5 * i - 3
  --> read
  local extra = extras and extras[i]
  if extra and extra.lack > 0 and known == nil then
    at, used, aux = now, extra.lack, fill
    if cost > 0 then
      local state = string.format('%s%d %d %d %d', kind, at, used, unit, aux)
      begun[#begun + 1] = {KEYS[i], state, ceil_div(used, fill * 1000) + 1 + extra.keep}
    end
  end

  local left, over, wait, used1, aux1, over1, ticks1, reset1, owed = judge_of(kind)(at, used, aux, clock, cost, room,
    unit, fill, reserve, ticks)
  over = bound and min(over, max(bound, clock)) or over

  local allowed, retry = 1, 0
  if cost > left and cost > 0 then
    allowed, retry, reply[1] = 0, -1, 0
    if cost <= capacity then
      retry = min(wait, over - clock)
    end
  end
  local reset = left < capacity and (reset1 and min(wait, over - clock) or over - clock) or 0
  if extra and extra.block > 0 then
    local until_us, length = string.match(redis.call('GET', extra.key) or '', '^(%d+) (%d+)$')
    if until_us and until_us - length > now + max_ahead then
      until_us = nil -- begun before the clock was set back
    end
    local wait, longest = 0, extra.longest
    if until_us then
      wait = min(until_us - now, longest)
    end
    if wait <= 0 and retry > 0 then
      wait = extra.block
      if until_us and now < until_us + length then
        wait = min(max(2 * length, extra.block), longest)
      end
      begun[#begun + 1] = {extra.key, string.format('%d %d', now + wait, wait), ceil_div(2 * wait, 1000) + 1}
    end
    if wait > 0 then
      left, reset = 0, max(reset, wait)
      if cost > 0 then
        allowed, reply[1] = 0, 0
        if retry >= 0 then
          retry = max(retry, wait)
        end
      end
    end
  end
  local r = 4 * i - 2
  reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = allowed, left, retry, reset

  if cost > 0 and reply[1] == 1 then
    -- The state lives until it is the same as an absent one, rounded up to ms (laws U8, U9), and one more: the server
    -- reckons expiry from the ms in which the script began.
    local w = #writes
    writes[w + 1], writes[w + 2] = i, string.format('%s%d %d %d %d', kind, clock, used1, unit, aux1)
    if ticks1 then
      writes[w + 2] = writes[w + 2] .. ' ' .. ticks1
    end
    local ends = slack > 0 and clock + ceil_div(used1, fill) or over1
    writes[w + 3], writes[w + 4], writes[w + 5] = ceil_div(ends - now, 1000) + 1, left - cost, over1 - clock
    if owed then
      writes[w + 4], writes[w + 5], writes[w + 6] = reset1 > 0 and 0 or capacity, reset1, owed
    else
      writes[w + 6] = 0
    end
    if extra then
      writes[w + 3] = writes[w + 3] + extra.keep
    end
  end
end

if reply[1] == 1 then
  for w = 1, #writes, 6 do
    local i = writes[w]
    redis.call('SET', KEYS[i], writes[w + 1], 'PX', writes[w + 2])
    reply[4 * i - 1], reply[4 * i + 1], reply[4 * i] = writes[w + 3], writes[w + 4], writes[w + 5]
  end
elseif begun then
  for b = 1, #begun do
    redis.call('SET', begun[b][1], begun[b][2], 'PX', begun[b][3])
  end
end
reply[4 * n + 2] = now
return reply
