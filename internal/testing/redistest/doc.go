// Package redistest starts Redis for tests: a real redis-server for each test, or a real cluster of three. Tests on
// miniredis use test/miniredis.
//
// Every server runs on a free loopback port with its own directory and is stopped by its process id when the test ends.
// If redis-server is not installed, the test is skipped, or fails with HOTPARAM_REQUIRE_SERVERS=1. Only with this
// variable are clusters started and long tests run.
//
// HOTPARAM_REDIS_SERVER names another server to start, by path or as found in PATH: an older or newer Redis, or Valkey.
// It has to accept the flags of redis-server, be one process and know CLUSTER. test/integration runs the tests of the
// limits on several servers in this way.
package redistest
