-- write_report: stores one limiter's report and counts the live limiters.
--
-- KEYS[1]  report:<instance>  string: the report (JSON)
-- KEYS[2]  report:index       sorted set: instance -> expiry, unix ms
-- ARGV[1]  instance
-- ARGV[2]  report
-- ARGV[3]  life, ms
--
-- Returns the number of limiters with a report that has not expired, this one included.
--
-- One round trip; O(log N) and O(expired).

local report_key, index_key = KEYS[1], KEYS[2]
local instance, report = ARGV[1], ARGV[2]
local life_ms = tonumber(ARGV[3])

redis.call('SET', report_key, report, 'PX', int(life_ms))
redis.call('ZADD', index_key, int(now_ms + life_ms), instance)
redis.call('ZREMRANGEBYSCORE', index_key, '-inf', int(now_ms))
redis.call('PEXPIRE', index_key, int(life_ms))
return redis.call('ZCARD', index_key)
