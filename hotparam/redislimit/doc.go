// Package redislimit holds any number of processes to one limit, kept in Redis.
//
//	limits := redislimit.New(rdb)
//	result, err := limits.Allow(ctx, "mail:anna", limit.PerSecond(10))
//
// rdb is the caller's go-redis client: one server, Sentinel, or a cluster. A limit is
// named by its key and kept exactly, by the clock of Redis; package limit has the
// algorithms. A call is one round trip, and calls that come at the same time share
// one. Keys in Redis begin with "hp:{limits", and each expires.
//
// An error says that Redis did not answer, or that the limit is not one: it is the
// caller's choice to let pass or to refuse then. It is not known whether the call
// was charged. Give rdb ContextTimeoutEnabled: true, or go-redis waits for its own
// timeouts where the context ends sooner.
package redislimit
