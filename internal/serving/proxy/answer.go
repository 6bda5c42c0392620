package proxy

import (
	"bufio"
	"maps"
	"net"
	"net/http"
	"slices"

	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// answerWriter is the ResponseWriter of a request to an upstream. It keeps the fields of the upstream apart from the
// fields that are already set for the client, and passes them on unchanged:
//
//   - Its fields stand beside the client's when the answer begins. Informational answers before it have the upstream's
//     fields alone, and take none away.
//   - 100 Continue does not pass: the server sends its own to a client that waits for one, when the body is read.
//   - No type is made up for a body without one: the upstream may have said nosniff.
type answerWriter struct {
	http.ResponseWriter
	header http.Header // the upstream's fields, until the response begins
	begun  bool
}

// Header implements http.ResponseWriter. Fields that are set after the response has begun are trailers.
func (a *answerWriter) Header() http.Header {
	if a.begun {
		return a.ResponseWriter.Header()
	}
	return a.header
}

func (a *answerWriter) WriteHeader(status int) {
	switch {
	case status == http.StatusContinue:
		return
	case status < 200 && status != http.StatusSwitchingProtocols:
		a.sendInterim(status)
		return
	}
	a.begun = true
	h := a.ResponseWriter.Header()
	for name, values := range a.header {
		h[name] = append(slices.Clip(h[name]), values...)
	}
	if len(h["Content-Type"]) == 0 && status != http.StatusNotModified {
		h["Content-Type"] = nil // net/http checks the name only
	}
	a.ResponseWriter.WriteHeader(status)
}

// sendInterim sends an informational response.
func (a *answerWriter) sendInterim(status int) {
	h := a.ResponseWriter.Header()
	final := maps.Clone(h)
	clear(h)
	maps.Copy(h, a.header)
	delete(h, httplimit.FieldGrant)
	a.ResponseWriter.WriteHeader(status)
	clear(h)
	maps.Copy(h, final)
}

func (a *answerWriter) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the capabilities of the server's own writer.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Hijack implements http.Hijacker. The header of the response is then written to the connection, with the client's
// fields.
func (a *answerWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	a.begun = err == nil
	return conn, rw, err
}
