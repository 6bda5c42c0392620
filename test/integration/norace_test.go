//go:build !race

package integration_test

// raced is whether the race detector watches.
const raced = false
