// Package miniredis tests internal/storage/redislimits on miniredis, which users of the library may have in their own
// tests, and whose clock can be set. It implements less of Redis than a real server, on which redislimits has its own
// tests.
package miniredis
