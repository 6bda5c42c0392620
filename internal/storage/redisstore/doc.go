// Package redisstore is the connection to Redis that packages redisfeed and
// redislimits share: where it is, how long a call may take, what is sent again and
// what never is, and the names of the keys.
//
// A [Client] is opened once and shared. Nothing here needs the server to be up: calls
// fail within their timeout. It works on one server, behind TLS, on a unix socket and
// on a cluster: all keys of a namespace carry one hash tag.
package redisstore
