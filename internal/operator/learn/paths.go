package learn

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// maxDepth is the maximum number of segments of a path that is learned from.
const maxDepth = 8

// end is the last segment of a path that ends with a slash, as in a pattern.
const end = "{$}"

// The numbers of children from which on they are values of the path, and not pages of their own.
const (
	manyLeaves   = 20
	manyWords    = 200 // leaves, beside segments that are numbers
	manyBranches = 50
	maxChildren  = 512 // children that are held before they are folded while reading
)

type node struct {
	requests int64 // requests that end here or below
	ends     int64 // requests that end here
	literal  map[string]*node
	wild     *node            // segments that are values
	folded   bool             // there were too many leaves, so that further leaves are values
	forked   bool             // there were too many branches, so that further branches are values
	names    map[string]int64 // requests by name of query parameter; empty if ends is 0
	writes   int64            // number of ends with a method other than GET and HEAD
	unusual  int64            // number of ends with status 204, or 300 and above without 304
}

// paths is the tree of all paths of a log. Segments that look like values, and segments with too many siblings, become
// one wildcard.
type paths struct {
	root         *node
	nodes, names int
}

func newPaths() *paths { return &paths{root: newNode()} }

func newNode() *node { return &node{literal: map[string]*node{}, names: map[string]int64{}} }

func (n *node) findOrAddWildcard() *node {
	if n.wild == nil {
		n.wild = newNode()
	}
	return n.wild
}

func (p *paths) add(r *hottype.Request, status int) {
	target, query := r.SplitTarget()
	segments, ok := segmentsOf(target)
	if !ok || hottype.InvalidTargetReason(r.Method, r.Target) != "" {
		return
	}
	n := p.root
	for i, s := range segments {
		n.requests++
		n = p.findOrAddChild(n, s, i == len(segments)-1)
	}
	n.requests++
	n.ends++
	n.writes += oneIf(r.Method != "GET" && r.Method != "HEAD")
	n.unusual += oneIf(status >= 300 && status != 304 || status == 204)
	for name := range queryParams(query) {
		p.countName(n, name)
	}
}

func (p *paths) findOrAddChild(n *node, segment string, last bool) *node {
	if next := n.literal[segment]; next != nil {
		return next
	}
	many := last && n.folded && !isFile(segment) || !last && n.forked || p.nodes >= maxNodes
	if segment != end && (many || isValue(segment)) {
		return n.findOrAddWildcard()
	}
	if segment != end && len(n.literal) >= maxChildren {
		n.foldChildren()
		return p.findOrAddChild(n, segment, last)
	}
	p.nodes++
	next := newNode()
	n.literal[strings.Clone(segment)] = next
	return next
}

func (p *paths) countName(n *node, name string) {
	if _, ok := n.names[name]; !ok {
		if p.names >= maxNames || len(n.names) >= 64 || !isName(name) {
			return
		}
		p.names++
		name = strings.Clone(name)
	}
	n.names[name]++
}

// foldChildren merges similar children into one wildcard if there are many: leaves that are no pages of their own, and
// branches.
func (n *node) foldChildren() {
	var leaves, branches []string
	common := n.commonNames()
	for _, name := range slices.Sorted(maps.Keys(n.literal)) {
		c := n.literal[name]
		switch {
		case name == end:
		case len(c.literal) > 0 || c.wild != nil:
			branches = append(branches, name)
		case !c.hasOwnParam(common) && !isFile(name):
			leaves = append(leaves, name)
		}
	}
	least := manyLeaves
	if n.wild != nil && !n.folded {
		least = manyWords // the values are numbers or hashes, and words are pages beside them
	}
	if alike := n.alikeLeaves(leaves); len(alike) >= least {
		n.mergeIntoWildcard(alike)
		n.folded = true
	}
	if alike := n.alikeBranches(branches); len(alike) >= manyBranches {
		n.mergeIntoWildcard(alike)
		n.forked = true
	}
	if len(n.literal) >= maxChildren {
		all := slices.Sorted(maps.Keys(n.literal))
		n.mergeIntoWildcard(slices.DeleteFunc(all, func(name string) bool { return name == end }))
		n.folded, n.forked = true, true
	}
}

// hasOwnParam reports whether at least half of the requests that end here have the same parameter, and it is not
// common.
func (n *node) hasOwnParam(common map[string]bool) bool {
	for name, times := range n.names {
		if 2*times >= n.ends && !common[name] {
			return true
		}
	}
	return false
}

// commonShare is the share of the leaves from which on a parameter that occurs at them does not distinguish pages.
const commonShare = 0.2

// commonNames returns the parameters that many children have, such as trackers.
func (n *node) commonNames() map[string]bool {
	times, leaves := map[string]int{}, 0
	for _, c := range n.literal {
		leaves += int(oneIf(c.ends > 0))
		for name := range c.names {
			times[name]++
		}
	}
	common := map[string]bool{}
	for name, n := range times {
		common[name] = n >= manyLeaves/2 && float64(n) >= commonShare*float64(leaves)
	}
	return common
}

func (n *node) mergeIntoWildcard(names []string) {
	for _, name := range names {
		n.findOrAddWildcard().mergeNode(n.literal[name])
		delete(n.literal, name)
	}
}

func (n *node) mergeNode(other *node) {
	n.requests += other.requests
	n.ends += other.ends
	n.writes += other.writes
	n.unusual += other.unusual
	for name, times := range other.names {
		n.names[name] += times
	}
	for name, c := range other.literal {
		if n.literal[name] == nil {
			n.literal[name] = newNode()
		}
		n.literal[name].mergeNode(c)
	}
	if other.wild != nil {
		n.findOrAddWildcard().mergeNode(other.wild)
	}
}

func (n *node) foldAll() {
	n.foldChildren()
	for _, c := range n.literal {
		c.foldAll()
	}
	if n.wild != nil {
		n.wild.foldAll()
	}
}

// find returns the node of a path, or nil if the tree does not have the path.
func (p *paths) find(segments []string) *node {
	n := p.root
	for _, s := range segments {
		next := n.literal[s]
		if next == nil && s != end {
			next = n.wild
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

type template struct {
	*node
	pattern string   // as match.path of a rule
	wild    []string // its wildcards, by name
	at      []int    // the number of the segment of each wildcard
}

// buildTemplates lists the paths at which requests end, the most specific paths first.
func (p *paths) buildTemplates() []*template {
	var all []*template
	p.root.foldAll()
	var walk func(n *node, t template)
	walk = func(n *node, t template) {
		if n.ends > 0 {
			t.node, t.pattern = n, cmp.Or(t.pattern, "/")
			all = append(all, &t)
		}
		depth := strings.Count(t.pattern, "/")
		for _, name := range slices.Sorted(maps.Keys(n.literal)) {
			walk(n.literal[name], template{pattern: t.pattern + "/" + name, wild: t.wild, at: t.at})
		}
		if n.wild != nil {
			name := "id"
			if len(t.wild) > 0 {
				name += string(rune('1' + len(t.wild)))
			}
			walk(n.wild, template{
				pattern: t.pattern + "/{" + name + "}",
				wild:    append(slices.Clone(t.wild), name), at: append(slices.Clone(t.at), depth),
			})
		}
	}
	walk(p.root, template{})
	return all
}
