-- limit_refund: refunds the charges of one request that were allowed here, because another store or another node denied
-- the request. Last part of the script "refund"; see limit_prelude.
--
-- KEYS[i]  state of charge i, a string; all in one hash slot
-- and six for each charge, as it was allowed:
-- ARGV[..] kind, cost, room, unit, fill; see limit_decide
--          when it was allowed, unix us: the now that "decide" returned; negative: us
--          before now; with "!" before it the request is undone at once
--
-- Returns whole numbers, three for each charge: remaining and reset, as after a cost of 0, and 0 if the state was
-- written under other terms since, so that the charge stays, else 1.
--
-- It refunds at most the charged cost, and never enough to let more pass than if the charge had not been made: cost
-- that has run back into a bucket by itself or belongs to a window that is over is not refunded again, and a state that
-- was written under other terms since stays. A call that is sent twice refunds twice.
--
-- One round trip: TIME, two GETs and at most one SET a charge. Expiries stay, because a state that lives too long means
-- the same as an absent one.

-- All charges are refunded before any state is judged, because a key may occur twice.
local reply = {}
for pass = 1, 2 do
  local refunds = pass == 1
  for i = 1, #KEYS do
    local a = 6 * i - 5
    --> read
    if pass == 2 then
      local left, over, wait, _, _, _, _, reset = judge_of(kind)(at, used, aux, clock, 0, room, unit, fill,
        reserve, ticks)
      over = bound and min(over, max(bound, clock)) or over
      if reset then
        over = min(over, clock + wait)
      end
      reply[3 * i - 2], reply[3 * i - 1] = left, left < capacity and over - clock or 0
      reply[3 * i] = known ~= false and 1 or 0
    elseif known and cost > 0 and cost <= capacity then
      local undo, when = string.match(ARGV[a + 5], '^(!?)(.+)$')
      when = when + 0
      when = when < 0 and now + when or when
      if undo ~= '' and now < at then -- the clock is behind, so the charge counted at `at` (law U11)
        when = at
      end
      used, aux, ticks = refund_of(kind)(at, used, aux, ticks, when, cost, room, unit, fill)
      local text = string.format('%s%d %d %d %d', kind, at, used, unit, aux)
      redis.call('SET', KEYS[i], ticks and text .. ' ' .. ticks or text, 'KEEPTTL')
    end
  end
end
return reply
