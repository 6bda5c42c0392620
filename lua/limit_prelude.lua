-- limit_prelude: what the limiting algorithms share. First part of the script
-- "decide"; the parts are joined by embed.go and never run alone.
--
-- A state is what is remembered of one key, the same as in package limit, as the
-- string "<kind><at> <used> <unit> <aux>":
--   kind  't' token bucket and GCRA, 'f' fixed window, 's' sliding window,
--         'a' anchored window, 'l' sliding log and bucketed window, 'w' warm-up
--   at    when it was last charged, unix us; time never runs backwards from it
--   used  t: units missing; w: units owed and warm; f, s, a, l: cost that counts at `at`
--   unit  t: units of one token; w: units of one us; f, s, a, l: the window, us
--   aux   t: units regained per us; s: cost in the window before; f: 0; a: when
--         the window began; l: the newest tick, us; w: units warm
-- A sliding log has a space and its ticks after that; see limit_sliding_log.
--
-- Each algorithm is two functions. <kind>_judge says what a cost does to a state
-- of its own kind and unit, with `now` not before `at`. It returns
--   left   cost that fits before this one
--   over   when the state is the same as none, `now` if it already is
--   wait   time until a cost above left fits; only good for such a cost
--   used, aux, over   the same after this cost; only good for one that fits
-- <kind>_taken returns the cost taken by any state of its kind, rounded up to
-- whole cost, and when it is the same as none.
--
-- Every number is a whole one below 2^53, which limit.Spec.Validate sees to, so
-- doubles are exact. Division is too: the quotient of two such numbers is never
-- rounded up to a whole one. '%d' writes them out; Redis must be a 64-bit one.
--
-- Tables and functions are built anew in every run and cost more than
-- arithmetic, so there are few: a bucket takes 10 us inside Redis 7 this way,
-- and took 14 us with a table for each state and each algorithm.

local floor, max, min = math.floor, math.max, math.min

-- a % b is done by the interpreter itself, where floor and max are calls. It is
-- as exact as a / b, and not below 0.
local function ceil_div(a, b)
  local rest = a % b
  if rest > 0 then
    return (a - rest) / b + 1
  end
  return a / b
end
