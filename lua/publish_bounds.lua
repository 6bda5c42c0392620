-- publish_bounds: stores what upstreams can take, if the caller is the owner.
--
-- KEYS[1]  hot:bounds_owner  string: token of the process whose bounds are stored
-- KEYS[2]  hot:bounds        string: the bounds (JSON)
-- ARGV[1]  token of the calling process
-- ARGV[2]  bounds
-- ARGV[3]  lease of the owner, ms
-- ARGV[4]  life of the bounds, ms
--
-- Returns 1 if the bounds were stored, or 0 if another process is the owner.
--
-- Several aggregators read the same reports, but limits would oscillate between the bounds of two writers. An owner
-- that was frozen is rejected when it continues, if another process has taken over.
--
-- One round trip; O(1).

local owner_key, bounds_key = KEYS[1], KEYS[2]
local token, bounds = ARGV[1], ARGV[2]
local lease_ms, life_ms = ARGV[3], ARGV[4]

local owner = redis.call('GET', owner_key)
if owner and owner ~= token then
  return 0
end
redis.call('SET', owner_key, token, 'PX', lease_ms)
redis.call('SET', bounds_key, bounds, 'PX', life_ms)
return 1
