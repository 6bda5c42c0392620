// Package program is for tests that run real programs: it fetches them once,
// starts them, keeps what they say, and stops them with the test.
package program
