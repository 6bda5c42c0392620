//go:build race

package integration_test

// raced tests count exactly and are not fast.
const raced = true
