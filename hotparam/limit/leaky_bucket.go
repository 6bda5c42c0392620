package limit

// Leaky bucket as a queue, as nginx has it: calls leave one after the other, T =
// Window/Limit apart, each as soon as it may; Burst of them may stand in the queue,
// and who finds it full is denied at once. Which calls are admitted is what GCRA
// says, and state, arithmetic and scripts are the same. The one difference is that
// an admitted call has to wait for its turn:
//
//	leaves = max(now, the one before leaves + its cost x T)
//
// nginx counts the excess over the rate in thousandths of a call, denies where it
// is above the burst, and delays by excess / rate. That excess is what waits in
// front of the call: the same numbers.
//
// A store holds nobody back. It answers at once, and the caller waits for
// Charge.Wait; one that does not has nginx's "nodelay", which is GCRA. nginx's
// "delay=d" is GCRA of burst d that may wait for the other burst-d calls (see
// wait.go). A caller that gives up keeps its place, as in nginx.
