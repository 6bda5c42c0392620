// Package publicapi tests what the library promises to its users: a module of
// their own protects a service in a few lines and compiles nothing that it does not
// need, and a service that is stopped loses no count.
package publicapi
