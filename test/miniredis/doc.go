// Package miniredis tests internal/storage/redisstore on miniredis, which whoever
// uses the library may have in tests of their own, and whose clock can be set. It
// knows less of Redis than a real server, on which redisstore has its own tests.
package miniredis
