-- claim_hot: takes the free id of a publisher, or releases it.
--
-- KEYS[1]  hot:epoch:<id>   string: "epoch token lease_end_ms" of the process that owns the id
-- ARGV[1]  token of the calling process, random
-- ARGV[2]  floor: the highest epoch that the caller knows of, or 0 if it knows no epoch
-- ARGV[3]  lease, ms: how long the id is the caller's without a publication;
--          0 releases it
-- ARGV[4]  life of the key, ms
--
-- Returns {code, epoch, left_ms}:
--   1  the id is the caller's; epoch is its own
--   0  another process owns it: its epoch, and how long its lease lasts
--   2  released, or not the caller's
--
-- An id is free when it has no owner or the owner's lease is over. A lease that ends more than a minute ahead was
-- written by another clock and is over too. The new epoch is above all earlier ones, so that no reader takes data of an
-- earlier owner for news.
--
-- One round trip; O(1).

local epoch_key = KEYS[1]
local token = ARGV[1]
local floor = tonumber(ARGV[2])
local lease_ms = tonumber(ARGV[3])
local life_ms = ARGV[4]

local held, owner, lease_end_ms = string.match(redis.call('GET', epoch_key) or '', '^(%d+) (%S+) ?(%d*)$')
held = tonumber(held or '0')
lease_end_ms = tonumber(lease_end_ms or '') or 0

local epoch = held
if owner ~= token then
  if lease_ms == 0 then
    return {2, held, 0}
  end
  if lease_end_ms > now_ms and lease_end_ms <= now_ms + 60000 then
    return {0, held, lease_end_ms - now_ms}
  end
  epoch = math.max(held + 1, floor + 1, now_ms)
end
redis.call('SET', epoch_key, int(epoch) .. ' ' .. token .. ' ' .. int(now_ms + lease_ms), 'PX', life_ms)
if lease_ms == 0 then
  return {2, epoch, 0}
end
return {1, epoch, lease_ms}
