// Package hotparam protects a service from hot parameters. It counts requests by
// the parameter values that they ask for, finds the values that are hot right
// now, and limits only those.
//
//	rules, err := hotparam.LoadRules("rules.yaml") // or NewRules, of Go values
//	p, err := hotparam.New(hotparam.Config{Rules: rules})
//	go p.Run(ctx)
//	http.ListenAndServe(":3000", p.Middleware(mux))
//
// With nothing but Rules, all of it happens in this process:
//
//	request ──> Middleware ──> count ──> window ──> hot keys ──┐
//	               └── hot key? its limit; per-IP windows  <───┘
//
// With Redis and StatsD (or a Sink), any number of processes share one picture:
// counts go to the aggregators, hot keys and overrides come back by Redis, and
// limits hold for all processes together.
//
// A request whose key is not hot costs one look-up in memory. The body is never
// read, and counting never waits.
package hotparam
