package listener

import (
	"bytes"
	"net/http"
	"strings"
)

// framing finds out by which fields a request of HTTP/1 declares the end of its body. net/http removes Content-Length
// from a request with Transfer-Encoding, and a gateway in front that reads the other field takes the bytes after the
// body for a part of it (RFC 9112, 6.1).
//
// Of pipelined requests it sees only the first. That is enough because gateways, whose connections have several
// clients, do not pipeline.
type framing struct {
	line            []byte // the beginning of the last line
	begun, complete bool   // whether the request line was seen, and the whole header
	length, coding  bool   // whether it has Content-Length, and Transfer-Encoding
}

// longestName is the part of a line that is enough to recognize both names.
const longestName = len("transfer-encoding:")

// scanHeader reads the next bytes, until the header is complete.
func (f *framing) scanHeader(p []byte) {
	for len(p) > 0 && !f.complete {
		n := bytes.IndexByte(p, '\n')
		part := p
		if n >= 0 {
			part = p[:n]
		}
		f.line = append(f.line, part[:min(len(part), longestName-len(f.line))]...)
		if n < 0 {
			return
		}
		p = p[n+1:]
		f.endLine()
	}
}

func (f *framing) endLine() {
	name, _, _ := strings.Cut(string(f.line), ":")
	empty := len(f.line) == 0 || f.line[0] == '\r'
	f.line = f.line[:0]
	switch {
	case empty:
		f.complete = f.begun // net/http ignores empty lines before a request
	case !f.begun:
		f.begun = true
	case strings.EqualFold(name, "Content-Length"):
		f.length = true
	case strings.EqualFold(name, "Transfer-Encoding"):
		f.coding = true
	}
}

// reset prepares for the header of the next request.
func (f *framing) reset() { *f = framing{line: f.line[:0]} }

// isAmbiguous reports whether others may see another end of the body, because the request declares it twice, or is of
// HTTP/1.0, which has no Transfer-Encoding.
func (f *framing) isAmbiguous(r *http.Request) bool {
	return f.coding && (f.length || !r.ProtoAtLeast(1, 1))
}
