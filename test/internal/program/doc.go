// Package program is for tests that run real programs: it fetches them once, starts them, records their output, and
// stops them with the test.
package program
