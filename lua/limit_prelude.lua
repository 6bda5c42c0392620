-- limit_prelude: the common part of the limiting algorithms. The second part of "decide", "decide many" and "refund".
--
-- A state holds the past charges of one key, the same as in internal/limitcore, as the
-- string "<kind><at> <used> <unit> <aux>":
--   kind  't' token bucket and GCRA, 'f' fixed window, 's' sliding window,
--         'a' anchored window, 'l' sliding log and bucketed window, 'w' warm-up
--   at    when it was last charged, unix us; time never runs backwards from it, unless
--         it is further ahead than max_ahead
--   used  t: units missing; w: units owed and warm; f, s, a, l: cost that counts at `at`
--   unit  t: units of one token; w: units of one us; f, s, a, l: the window, us
--   aux   t: units regained per us; s: cost in the window before; f: 0; a: when
--         the window began; l: the newest tick, us; w: units warm
-- A sliding log has a space and its ticks after that; see limit_sliding_log.
--
-- Each kind is a file of its own, which embed.go finds. Its functions begin with its
-- letter. A line "--> decide refund" names the scripts that contain the lines below it. The
-- lines below "--> adopt" are inside adopt of limit_state, so they cost nothing elsewhere.
-- "many" has the kinds that need neither ticks nor reset and owed:
--   judge(at, used, aux, now, cost, room, unit, fill, reserve, ticks): applies a cost to a
--   state of its kind and unit, with `now` not before `at`; room is the maximum of used:
--   't' units, else cost; reserve is only for 't': the units of room that have to be left
--   after the cost, or nil. Returns
--     left   cost that fits before this one, beside the reserve
--     over   when all is left again, `now` if it already is; 'w': when the state is the
--            same as an absent one
--     wait   time until a cost above left fits; only valid for such a cost
--     used, aux, over, ticks   the same after this cost; only valid for a cost that fits
--     reset, owed   only 'w': see limit_warming_up
--   taken(at, used, unit, aux): the cost taken by a state, rounded up to whole cost, and
--   when the state is the same as an absent one; nothing if it is not a state
--   adopt(taken, at, unit, fill, kind0, used0, unit0, aux0): used and aux of the state
--   that has taken this cost under another limit; without this function taken and 0
--   refund(at, used, aux, ticks, when, cost, room, unit, fill): used, aux and ticks
--   without a cost that was charged at `when`
-- To choose by kind, write judge_of(...), which embed.go replaces by comparisons.
--
-- Every number is a whole number below 2^53, which limit.Spec.Validate ensures, so doubles are exact. Division is exact
-- too: the quotient of two such numbers is never rounded up to a whole one. '%d' writes them out; Redis must be a
-- 64-bit one.
--
-- Tables and functions are built in every run and cost more than arithmetic, so there are few: a bucket takes 10 us
-- inside Redis 7 this way, and took 14 us with a table for each state and each algorithm.

local floor, max, min = math.floor, math.max, math.min

-- max_ahead is the maximum time, in us, by which a state may have been charged after now. A state that is further ahead
-- was charged before the clock was set back, and counts as absent, because nothing would run back into it until the
-- clock has caught up. See internal/limitcore/state.go.
local max_ahead = 10000000

-- ceil_div uses a % b, an operation of the interpreter, because floor and max are calls. a % b is as exact as a / b,
-- and not below 0.
local function ceil_div(a, b)
  local rest = a % b
  if rest > 0 then
    return (a - rest) / b + 1
  end
  return a / b
end
