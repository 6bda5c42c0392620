-- in_flight: slots of calls that run at the same time, each with a lease that expires. See hotparam/limit/in_flight.go.
--
-- KEYS[1]  a sorted set, "+<id>" -> end of its lease, and "at" -> when a slot was last
--          taken, unix us; time never runs backwards from "at" (law U11), unless it is
--          more than ten seconds ahead: then the clock was set back
-- ARGV[1]  id of the call
-- ARGV[2]  how many may run; empty: release the slot of the id
-- ARGV[3]  life of a lease, us, above 0
--
-- Returns {allowed, remaining, retry, reset}: allowed is 1 or 0; remaining is the number of free slots; retry is an
-- upper bound of the us until a slot is free, or 0 if allowed, or -1 for never; reset is the us until all slots are
-- free. A release returns {1} if the id had a slot, else {0}. A denied call writes nothing. The key expires with its
-- last lease.
--
-- One round trip; O(log calls), and leases that ended are removed.

local key, id, most, life = KEYS[1], '+' .. ARGV[1], ARGV[2], tonumber(ARGV[3])

local over = tonumber(redis.call('ZSCORE', key, id) or '0')
local at = tonumber(redis.call('ZSCORE', key, 'at') or '0')
if at > now + 10000000 then
  at = now
  redis.call('ZADD', key, string.format('%d', at), 'at')
end
local now = math.max(now, at)
if most == '' then
  redis.call('ZREM', key, id)
  return {over > now and 1 or 0}
end
most = tonumber(most)

local live = string.format('(%d', now)
local count = redis.call('ZCOUNT', key, live, '+inf')
if over <= now then
  if count >= most then
    -- A slot is free after the lease of `first`; the bound may have been lowered.
    local first = redis.call('ZRANGEBYSCORE', key, live, '+inf', 'WITHSCORES', 'LIMIT', count - most, 1)
    local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if count == 0 then
      return {0, 0, -1, 0}
    end
    return {0, math.max(0, most - count), most == 0 and -1 or first[2] - now, last[2] - now}
  end
  count = count + 1
end

redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%d', now))
redis.call('ZADD', key, string.format('%d', now), 'at', string.format('%d', now + life), id)
local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] - now
redis.call('PEXPIRE', key, math.floor(last / 1000) + 2)
return {1, math.max(0, most - count), 0, last}
