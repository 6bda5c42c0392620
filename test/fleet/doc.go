// Package fleet runs a whole fleet in one process and on virtual time: limiters, two aggregators, a collector and
// Redis, wired as the programs wire them, in a bubble of testing/synctest. Nothing but the network and the server of
// Redis is replaced:
//
//	traffic ──> limiters ──datagrams──> aggregators ──streams──> Redis (miniredis, scripts of lua/)
//	               │                         └─────────HTTP──────> webhook
//	               └────────────────────streams──────────────────> Redis
//
// Links delay, lose, double, reorder and cut. Processes die, restart, hand over and hold a wrong clock. Redis freezes,
// restarts and loses its data. The plan of a run follows from a seed.
//
// An observer that sees everything judges the laws of laws_test.go each virtual second.
//
//	make fleet                 # seeds in parallel processes
//	make fleet SEED=17         # one seed, the same run to the byte, with a trace
//
// In every fourth seed the counts go by Kafka instead, by the producer and the consumer of the programs, to a model of
// a topic and a group. A model replaces Kafka's client too, because the client holds a mutex while it waits for a
// broker. The brokers freeze and restart, and partitions lose their leader.
//
// In every fifth seed processes find Redis through three models of Sentinels. Some or all of the Sentinels hang, refuse
// connections, or name an old master because they are cut off from the others; for the laws that is no fault.
//
// A bubble cannot show processor time, timers that stop with their process, times of arrival from a kernel, a cluster
// of Redis, or a fail-over to a replica.
package fleet
