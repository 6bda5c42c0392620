// Package redistest gives tests a Redis: a real redis-server of their own or a
// real cluster of three. What runs on miniredis is in test/miniredis.
//
// Every server runs on a free loopback port with its own directory and is
// stopped by its process id when the test ends. Where redis-server is not
// installed the test is skipped, unless HOTPARAM_REQUIRE_SERVERS=1: then it
// fails. Only then are clusters started and long tests run.
//
// HOTPARAM_REDIS_SERVER names another server to start, by path or as found in
// PATH: an older or newer Redis, or Valkey. It has to take the flags of
// redis-server, be one process and know CLUSTER. test/integration runs the tests
// of the limits on several that way.
package redistest
