// Package miniredis tests internal/storage/redislimits on miniredis, which whoever
// uses the library may have in tests of their own, and whose clock can be set. It
// knows less of Redis than a real server, on which redislimits has its own tests.
package miniredis
