-- limit_exchange: writes how much one process has allowed in windows that many processes share by sums, and returns how
-- much the others have allowed.
--
-- KEYS[i]  window i of one subject, a hash; all in one hash slot:
--            <id>  "<round> <sum>" of the process <id>, which alone writes it
--            all   the sum over the processes, so that the reply costs the same for any number
--                  of them
-- ARGV[1]  id of the process, another one after each start
-- ARGV[2]  round: number of the call, growing within a process
-- ARGV[3]  the last round without an answer for the process, whose call may still arrive
-- and three for each window; without any, the call only asks for the time (then
-- KEYS[1] only selects the node):
-- ARGV[..] start   when the window begins, unix us
--          over    when it no longer counts, unix us
--          sum     all that the process has allowed in it, minus refunds
--
-- Returns whole numbers: now, unix us; and for each window the cost that the others have allowed in it, or -1 if that
-- cannot be kept: the key is not such a hash, has too many processes, or the window has not begun.
--
-- A sum is absolute, so a call may be repeated, or arrive after a later one: no cost is counted twice, and no older sum
-- replaces a newer one. To ensure that, an unchanged sum is written again if a call without an answer may still write
-- another.
--
-- One round trip: TIME; for each window one HMGET, one HSET if the sum has changed, and HLEN and PEXPIRE if it is the
-- first; inside Redis 7 2 to 3 us for each.

local id, round, unsure = ARGV[1], ARGV[2] + 0, ARGV[3] + 0
local max_processes = 512 -- in one window, including processes that have ended
local early = 1000000 -- us by which clocks may differ

local reply = { now }
for i = 1, (#ARGV - 3) / 3 do
  local a = 3 * i + 1
  local start, over, sum = ARGV[a] + 0, ARGV[a + 1] + 0, ARGV[a + 2] + 0
  local others = over <= now and 0 or -1
  local fields = start <= now + early and now < over and redis.pcall('HMGET', KEYS[i], id, 'all') or {}
  local round0, sum0 = string.match(fields[1] or '0 0', '^(%d+) (%d+)$')
  local all = string.match(fields[2] or '0', '^%d+$')
  if #fields == 2 and round0 and all then
    others = all - sum0
    round0 = round0 + 0
    if others >= 0 and round >= round0 and (sum ~= sum0 + 0 or round0 < unsure) then
      if fields[1] or redis.call('HLEN', KEYS[i]) <= max_processes then
        redis.call('HSET', KEYS[i], id, string.format('%d %d', round, sum), 'all', string.format('%d', others + sum))
        if not fields[2] then -- a write keeps the expiry
          redis.call('PEXPIRE', KEYS[i], string.format('%d', math.ceil((over - now) / 1000) + 1))
        end
      else
        others = -1
      end
    end
  end
  reply[i + 1] = others
end
return reply
