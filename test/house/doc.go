// Package house holds the tests that keep the laws of the repository: which
// room may import which, and that each room says what it is.
package house
