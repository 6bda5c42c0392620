-- write_command: sends a command to every process that follows commands, and keeps it for processes that miss the
-- notice.
--
-- KEYS[1]  command:log     sorted set: command -> version (unix us, grows)
-- ARGV[1]  command:notice  channel
-- ARGV[2]  the command
-- ARGV[3]  life, ms
-- ARGV[4]  maximum number of commands that are kept
--
-- Returns the version.
--
-- One round trip; O(log N) and O(expired).

local log_key, notice = KEYS[1], ARGV[1]
local command = ARGV[2]
local life_ms, most = tonumber(ARGV[3]), tonumber(ARGV[4])


local version = now
local last = redis.call('ZRANGE', log_key, -1, -1, 'WITHSCORES')
if last[2] and tonumber(last[2]) >= version then
  version = tonumber(last[2]) + 1
end
redis.call('ZADD', log_key, int(version), command)
redis.call('ZREMRANGEBYSCORE', log_key, '-inf', int(now - life_ms * 1000))
redis.call('ZREMRANGEBYRANK', log_key, 0, -most - 1)
redis.call('PEXPIRE', log_key, int(life_ms))
redis.call('PUBLISH', notice, int(version))
return int(version)
