package requestlog

import (
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/rules"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// targetBounds are the maximum bytes of targets in lines. Of a longer target only the path is written, of a longer path
// only the beginning.
type targetBounds struct{ target, path int }

// writtenTarget returns the target of a request as rules redact it. All bytes that are not printable ASCII are escaped,
// because a client may send the same target escaped. The target is cut after it was redacted, because rules may not
// recognize the beginning of a path.
func (b targetBounds) writtenTarget(set *rules.Set, req *hottype.Request) string {
	target := set.RedactTarget(req)
	if len(target) > b.target {
		path, _, _ := strings.Cut(target, "?")
		target = path[:min(len(path), b.path)]
	}
	return string(httplimit.AppendEscaped(nil, target, func(c byte) bool { return c > ' ' && c < 0x7f }))
}
