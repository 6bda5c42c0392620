package learn

import (
	"slices"
	"strings"
)

// leastOwn is the minimum number of requests of a page that differs from the values beside it.
const leastOwn = 20

// alikeLeaves leaves out pages of their own: pages whose methods, statuses or names differ from nearly all other
// leaves. Values of one parameter look alike.
func (n *node) alikeLeaves(leaves []string) []string {
	var kinds [8]int
	kindOf := func(name string) (kind int) {
		c := n.literal[name]
		if 2*c.writes >= max(c.ends, 1) {
			kind |= 1
		}
		if 2*c.unusual >= max(c.ends, 1) {
			kind |= 2
		}
		if strings.ContainsAny(name, "-_.0123456789") {
			kind |= 4
		}
		return kind
	}
	for _, name := range leaves {
		kinds[kindOf(name)]++
	}
	usual := 0
	for kind, times := range kinds {
		if times > kinds[usual] {
			usual = kind
		}
	}
	if float64(kinds[usual]) < majority*float64(len(leaves)) {
		return leaves
	}
	return slices.DeleteFunc(leaves, func(name string) bool {
		kind := kindOf(name)
		// A single word may be a value among words with dashes unless it is requested often.
		return kind != usual && n.literal[name].ends >= leastOwn
	})
}

// leastCommon is the minimum number of branches that have a child for it to be a part of the pattern of all branches.
const leastCommon = 5

// alikeBranches leaves out sections of the site: branches with children that few other branches have. Branches that are
// values, such as in /users/{id}/show, all have the same children.
func (n *node) alikeBranches(branches []string) []string {
	times := map[string]int{}
	for _, name := range branches {
		for child := range n.literal[name].literal {
			times[child]++
		}
	}
	return slices.DeleteFunc(branches, func(name string) bool {
		c := n.literal[name]
		common := int64(0)
		for child, below := range c.literal {
			common += oneIf(times[child] >= leastCommon) * below.requests
		}
		if c.wild != nil {
			common += c.wild.requests
		}
		return 2*common < c.requests
	})
}

// fileTypes are the endings of programs and files. A segment with such an ending is a page, unless its name contains a
// digit.
var fileTypes = []string{
	".php", ".php5", ".asp", ".aspx", ".ashx", ".asmx", ".jsp", ".jspx", ".do", ".action", ".cgi", ".pl", ".py", ".cfm",
	".txt", ".xml", ".json", ".exe", ".dll",
}

func isFile(segment string) bool {
	at := strings.LastIndexByte(segment, '.')
	return at > 0 && slices.Contains(fileTypes, strings.ToLower(segment[at:])) &&
		!strings.ContainsAny(segment[:at], "0123456789")
}
