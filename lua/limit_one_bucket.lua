-- limit_one_bucket: a part of the script "decide many"; see limit_many, which says
-- what is asked and answered. Here the commonest call goes its short way: equal
-- requests for one bucket, whose state was written under the same terms or is not
-- there. All others fall through. It saves the functions and tables that the long
-- way builds first: 7 us inside Redis 7 instead of 12, however many requests there
-- are.
--
-- One round trip: TIME, one MGET, and one SET if any is admitted.

if #ARGV == 11 and ARGV[3] == 't' and ARGV[11] == '0' then
  local call, key, unit_text, fill_text = redis.call, KEYS[ARGV[10] + 0], ARGV[6], ARGV[7]
  local text, at, used, unit0, fill0 = call('MGET', key)[1], 0, 0, unit_text, fill_text
  if text then
    at, used, unit0, fill0 = string.match(text, '^t(%d+) (%d+) (%d+) (%d+)$')
  end
  if unit0 == unit_text and fill0 == fill_text then
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local cost, capacity, unit, fill, n = ARGV[4] + 0, ARGV[5] + 0, unit_text + 0, fill_text + 0, ARGV[9] + 0
    local clock, k = max(now, at + 0), n -- time never runs backwards (law U11)
    local left, over, wait, used1, _, over1 = t_judge(at + 0, used + 0, 0, clock, cost, capacity, unit, fill)
    if n * cost > left then
      k = floor(left / cost)
    end
    if k > 1 then
      _, _, _, used1, _, over1 = t_judge(at + 0, used + 0, 0, clock, k * cost, capacity, unit, fill)
    end
    local reply, reset = {k, left}, 0
    if k > 0 and cost > 0 then
      reset = over1 - clock
      call('SET', key, string.format('t%d %d ', clock, used1) .. unit_text .. ' ' .. fill_text,
        'PX', string.format('%d', ceil_div(over1 - now, 1000) + 1))
    elseif left < capacity then
      reset = over - clock
    end
    reply[3] = reset
    if k > 1 then
      reply[4] = used1
    end
    if k < n then
      if cost > capacity then
        wait = -1
      elseif k > 0 then
        _, _, wait = t_judge(clock, used1, 0, clock, cost, capacity, unit, fill)
      end
      reply[#reply + 1] = wait
    end
    reply[#reply + 1] = now
    return reply
  end
end

