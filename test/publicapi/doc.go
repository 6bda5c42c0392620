// Package publicapi tests the promises of the library to its users: a module of their own protects a service in a few
// lines and compiles no package that it does not need, and a service that is stopped loses no count.
package publicapi
