package adapter

import "net/http"

// rpcStatuses are the HTTP statuses of the codes of gRPC and Connect, in their order.
var rpcStatuses = [...]int{
	http.StatusOK,
	0,                              // canceled
	http.StatusInternalServerError, // unknown
	http.StatusBadRequest,          // invalid argument
	http.StatusGatewayTimeout,      // deadline exceeded
	http.StatusNotFound,
	http.StatusConflict,        // already exists
	http.StatusForbidden,       // permission denied
	http.StatusTooManyRequests, // resource exhausted
	http.StatusBadRequest,      // failed precondition
	http.StatusConflict,        // aborted
	http.StatusBadRequest,      // out of range
	http.StatusNotImplemented,
	http.StatusInternalServerError, // internal
	http.StatusServiceUnavailable,
	http.StatusInternalServerError, // data loss
	http.StatusUnauthorized,        // unauthenticated
}

// HTTPStatusFromRPC returns the HTTP status that corresponds to a code of gRPC or Connect, and 0 if the client did not
// wait for the response.
func HTTPStatusFromRPC(code uint32) int {
	if code < uint32(len(rpcStatuses)) {
		return rpcStatuses[code]
	}
	return http.StatusInternalServerError
}
