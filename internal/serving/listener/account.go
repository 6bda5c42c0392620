package listener

import (
	"net/http"
	"sync/atomic"
)

// account counts the memory that the HTTP/2 requests of a listener hold. A request of HTTP/1 has a connection of its
// own, and connections are bounded themselves.
type account struct {
	limit, clientLimit int64 // bounds in bytes, for all clients and for one; 0 for no bound
	held               atomic.Int64
	rejected           atomic.Uint64
}

func newAccount(cfg *Config) *account {
	a := &account{limit: cfg.streamsBound()}
	a.clientLimit = a.limit
	if cfg.MaxConnectionsClient > 0 && cfg.MaxConnectionsClient < cfg.MaxConnections {
		a.clientLimit = a.limit / int64(cfg.MaxConnections) * int64(cfg.MaxConnectionsClient)
	}
	return a
}

// holdRoom takes room for the request of a stream, or rejects it. A client may take the same share of the account as of
// the connections, so that other clients go on, and maxHeld bytes of unusual headers.
func (a *account) holdRoom(st *stream, header int64) {
	n := 2*header + perRequest
	st.held, st.headers = n, header
	ok := a.held.Add(n) <= a.limit || a.limit == 0
	if c := st.client; c != nil {
		ok = (c.held.Add(n) <= a.clientLimit || a.limit == 0) && ok
		st.tooLong = c.headers.Add(header) > maxHeld && header > usualHeader
	}
	if st.rejected = st.tooLong || !ok; st.rejected {
		a.rejected.Add(1)
	}
}

// release returns the room of a stream.
func (a *account) release(st *stream) {
	a.held.Add(-st.held)
	if c := st.client; c != nil {
		c.held.Add(-st.held)
		c.headers.Add(-st.headers)
	}
	st.held, st.headers = 0, 0
}

// rejectionStatus returns the status that answers a rejected request.
func (st *stream) rejectionStatus() int {
	if st.tooLong {
		return http.StatusRequestHeaderFieldsTooLarge
	}
	return http.StatusServiceUnavailable
}
