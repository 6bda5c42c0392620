// Package frontdoor holds the library to what it promises to a stranger: a module of
// their own protects a service in a few lines and compiles nothing that it does not
// need, and a service that is told to end loses no count.
package frontdoor
