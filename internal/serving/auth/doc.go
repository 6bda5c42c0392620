// Package auth is who may call a listener: a token that callers show, and the
// rule that an address which other machines can reach has one.
//
// Wrong tokens are counted, logged and slowed for each client address, in
// bounded memory. The admin listener and the decision API share this package.
package auth
