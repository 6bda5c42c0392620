-- restore_overrides: writes back the overrides that a process knows when Redis has an older state of them, or no state:
-- it was flushed, restarted without persistence, restored from a backup, or replaced by a replica that lagged. The
-- state with the highest version wins, whole.
--
-- KEYS[1]  override:entries  hash: id -> override (JSON)
-- KEYS[2]  override:until    sorted set: id -> end, unix ms, of overrides that end
-- KEYS[3]  override:version  string: grows with every change
-- KEYS[4] to KEYS[9], ARGV[1] to ARGV[7]  as override_audit describes them
-- KEYS[10] override:log      list: the last changes; it ends, because the state before is not the one that they led to
-- ARGV[8]  version of the caller's overrides; the store has it afterwards
-- ARGV[9]  the version that the caller found in Redis, or 0 if there was no version
-- ARGV[10] number of overrides, n
-- ARGV[11] and so on: n times id, entry and end (unix ms, 0 without an end), then the
--          audit entries, oldest first
--
-- Returns {code, dropped, bytes}, with code 1 when done, or 0 if Redis no longer has the version that the caller found,
-- or if that is not an older one; then nothing is written. Code -3 is that of write_override: the caller calls again.
-- dropped is the number of changes that the audit lost because it was full, and bytes its size.
--
-- One round trip; O(n), and what override_audit bounds.

local entries_key, until_key, version_key = KEYS[1], KEYS[2], KEYS[3]
local version, found = tonumber(ARGV[8]), tonumber(ARGV[9])
local last = 10 + 3 * tonumber(ARGV[10])

local stored = version_of(redis.call('GET', version_key), now, 1000000)
if stored ~= found or stored >= version then
  return {0, 0, bytes}
end
if not begin_audit() then
  end_audit()
  return {-3, dropped, bytes}
end

redis.call('DEL', entries_key, until_key, KEYS[10])
for i = 11, last, 3 do
  local until_ms = tonumber(ARGV[i + 2])
  if until_ms == 0 then
    redis.call('HSET', entries_key, ARGV[i], ARGV[i + 1])
  elseif until_ms > now_ms then
    redis.call('HSET', entries_key, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', until_key, ARGV[i + 2], ARGV[i])
  end
end
for i = last + 1, #ARGV do
  drops_left = drops_left + 2
  add_change(ARGV[i])
end
redis.call('SET', version_key, ARGV[8])
redis.call('PUBLISH', channel, ARGV[8])
drop_old()
end_audit()
return {1, dropped, bytes}
