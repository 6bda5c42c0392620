package httplimit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// ErrAnswered means that a request whose client could not be named has been answered, so that it goes no further.
var ErrAnswered = errors.New("httplimit: the client of this request is not known")

// maxClientName is the length of the longest name that is kept unchanged. A longer name is kept as its hash, because
// clients choose names and windows hold many.
const maxClientName = 128

// NameClient returns the client that name returns for c, the request of a framework. The zero Client stands for the
// address. NameClient returns it if name is nil, returns "", or fails while failed is nil. If failed is set, it answers
// the request whose name failed, and NameClient returns its error, or ErrAnswered.
func NameClient[C any](c C, name func(C) (string, error), failed func(C, error) error) (hottype.Client, error) {
	if name == nil {
		return hottype.Client{}, nil
	}
	text, err := name(c)
	if err != nil {
		if failed != nil {
			return hottype.Client{}, cmp.Or(failed(c, err), ErrAnswered)
		}
		text = "" // the address identifies the client
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
