package httplimit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// ErrAnswered means that a request whose client could not be named was answered, so that it goes no further.
var ErrAnswered = errors.New("httplimit: the client of this request is not known")

// maxClientName is the longest name that is kept as it is. A longer one is kept as its hash: names come from clients,
// and windows hold many.
const maxClientName = 128

// NameClient returns the client that name finds for c, the request of a framework. The zero Client, which stands for
// the address, is that of a nil name, of the name "", and of a name that fails if failed is nil. Otherwise failed
// answers the request, and NameClient returns its error, or ErrAnswered.
func NameClient[C any](c C, name func(C) (string, error), failed func(C, error) error) (hottype.Client, error) {
	if name == nil {
		return hottype.Client{}, nil
	}
	text, err := name(c)
	if err != nil {
		if failed != nil {
			return hottype.Client{}, cmp.Or(failed(c, err), ErrAnswered)
		}
		text = "" // its address says who it is
	}
	switch {
	case text == "":
		return hottype.Client{}, nil
	case len(text) > maxClientName:
		sum := sha256.Sum256([]byte(text))
		text = hex.EncodeToString(sum[:])
	}
	return hottype.Client{Name: text}, nil
}
