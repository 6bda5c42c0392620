package detect

import (
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/rules"
)

// aliasPrefix begins the keys whose metric name cannot be decoded.
const aliasPrefix = "!hp1:"

// routes say which rule judges a key, by its position. Not changed once made.
type routes struct {
	byName   map[string]int
	catchAll int // -1: none
}

func newRoutes(set *rules.Set) *routes {
	r := &routes{byName: make(map[string]int), catchAll: -1}
	for i, rule := range set.Rules {
		r.byName[rule.Name] = i
		if rule.IsCatchAll() {
			r.catchAll = i
		}
	}
	return r
}

// of is the rule that judges key, -1 where none does.
func (r *routes) of(key hottype.Key) int {
	name := resourceOf(key)
	if strings.HasPrefix(name, aliasPrefix) {
		name = decodeResource(name[len(aliasPrefix):])
	}
	if i, ok := r.byName[name]; ok {
		return i
	}
	return r.catchAll
}

// resourceOf is the part of the key that says which rule judges it; for an
// alias, still in HP1 form and with its prefix.
func resourceOf(key hottype.Key) string {
	if strings.HasPrefix(string(key), aliasPrefix) {
		resource, _, _ := strings.Cut(string(key), ".")
		return resource
	}
	return key.Resource()
}

// decodeResource reads the HP1 form of a resource; "" where it is a hash. It
// lets canon read it as part of a metric without parameters.
func decodeResource(hp1 string) string {
	names := canon.Names{Prefix: "x", Style: canon.StyleHP1}
	key, err := names.Parse([]byte("x." + hp1 + ".hot_param.Ze"))
	if err != nil || strings.HasPrefix(string(key), aliasPrefix) {
		return ""
	}
	return key.Resource()
}
