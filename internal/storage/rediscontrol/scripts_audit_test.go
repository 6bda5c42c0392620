package rediscontrol

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// The bounds of the audit in the tests of the scripts are so low that each of them is met.
const (
	auditBytes, auditAge         = 5000, 180_000_000
	recentLength, removalsLength = 6, 3
	copiesPerCall                = 2
	overrideLifeMS               = 250_000
	overrideChannel              = "model:overrides"
)

func auditArgs() []any {
	return []any{auditBytes, auditAge, recentLength, removalsLength, overrideLifeMS, overrideChannel, copiesPerCall}
}

// auditModel is a model of the keys of lua/override_audit.lua. It knows the changes alone, and derives the rest.
type auditModel struct {
	p              *pair
	changes        []loggedChange // by number
	bytes, dropped int64
	last           int64 // number of the newest change
}

type loggedChange struct {
	number, revision     int64
	author, action, text string
	id                   string
}

var changeFields = regexp.MustCompile(`^\{"revision":(\d+),"at":"[^"]*","author":"((?:[^"\\]|\\.)*)","action":"(\w+)","id":"(\w*)"`)

func readChange(text string) (c loggedChange) {
	m := changeFields.FindStringSubmatch(text)
	c.revision, _ = strconv.ParseInt(m[1], 10, 64)
	c.author, c.action, c.id, c.text = m[2], m[3], m[4], text
	return c
}

func (c loggedChange) bytes() int64 { return int64(len(c.text) + 2*len(c.author) + 400) }

// audit returns the model of the audit as it is.
func (p *pair) audit() *auditModel {
	a := &auditModel{p: p}
	for text, number := range p.model.sorted(p.keys[4]) {
		c := readChange(text)
		c.number = number
		a.changes = append(a.changes, c)
		a.bytes += c.bytes()
	}
	slices.SortFunc(a.changes, func(x, y loggedChange) int { return cmp.Compare(x.number, y.number) })
	if n := len(a.changes); n > 0 {
		a.last = a.changes[n-1].number
	}
	return a
}

func (a *auditModel) state(field string) int64 {
	n, _ := strconv.ParseInt(a.p.model.hash(a.p.keys[8])[field], 10, 64)
	return n
}

func (a *auditModel) setState(field string, n int64) {
	a.p.model.hash(a.p.keys[8])[field] = fmt.Sprint(n)
}

// copyRecent copies the oldest changes of the list, and reports whether it copied all. A revision is copied if all its
// changes are.
func (a *auditModel) copyRecent() bool {
	list, _ := a.p.model.values[a.p.keys[3]].([]string)
	copied := a.state("copied")
	for i, text := range list {
		isKept := func(c loggedChange) bool { return c.text == text }
		if readChange(text).revision <= copied || slices.ContainsFunc(a.changes, isKept) {
			list = list[:i]
			break
		}
	}
	if len(list) == 0 {
		return true
	}
	if len(list) == recentLength {
		a.setState("complete_after", readChange(list[recentLength-1]).revision)
	}
	left, rest := list[:max(len(list)-copiesPerCall, 0)], list[max(len(list)-copiesPerCall, 0):]
	for _, text := range slices.Backward(rest) {
		a.keep(text)
	}
	if len(left) > 0 {
		a.setState("copied", readChange(left[len(left)-1]).revision-1)
		return false
	}
	a.setState("copied", readChange(list[0]).revision)
	return true
}

// keep adds a change, and drops the oldest changes of the author with most bytes, the last by name of several.
func (a *auditModel) keep(text string) {
	c := readChange(text)
	for a.bytes+c.bytes() > auditBytes && len(a.changes) > 0 {
		of := bytesByAuthor(a.changes)
		largest := slices.MaxFunc(slices.Collect(maps.Keys(of)), func(x, y string) int {
			return cmp.Or(cmp.Compare(of[x], of[y]), cmp.Compare(x, y))
		})
		i := slices.IndexFunc(a.changes, func(c loggedChange) bool { return c.author == largest })
		a.bytes -= a.changes[i].bytes()
		a.changes = slices.Delete(a.changes, i, i+1)
		a.dropped++
	}
	a.last = max(a.last+1, c.revision)
	c.number = a.last
	a.changes = append(a.changes, c)
	a.bytes += c.bytes()
	if c.action == "delete" {
		a.p.model.sorted(a.p.keys[7])[c.id] = c.revision
	}
}

// add is keep with an entry in the list.
func (a *auditModel) add(text string) {
	a.keep(text)
	a.p.model.push(a.p.keys[3], text, recentLength)
	a.setState("copied", readChange(text).revision)
}

// end drops what is too old or too much, and writes the keys.
func (a *auditModel) end() {
	a.dropOld()
	a.write()
}

func (a *auditModel) dropOld() {
	m, keys, oldest := &a.p.model, a.p.keys, a.p.now-auditAge
	a.changes = slices.DeleteFunc(a.changes, func(c loggedChange) bool { return c.number <= oldest })
	removed, old := m.sorted(keys[7]), 0
	for _, version := range removed {
		if version <= oldest {
			old++
		}
	}
	if old = max(old, len(removed)-removalsLength); old > 0 {
		gone := byScore(removed)[:old]
		a.setState("complete_after", removed[gone[old-1]])
		for _, id := range gone {
			delete(removed, id)
		}
	}
}

func (a *auditModel) write() {
	m, keys := &a.p.model, a.p.keys
	changes, index := map[string]int64{}, map[string]int64{}
	a.bytes = 0
	for _, c := range a.changes {
		changes[c.text] = c.number
		index[fmt.Sprintf("author:%d:%s:%016d", len(c.author), c.author, c.number)] = 0
		index[fmt.Sprintf("id:%s:%016d", c.id, c.number)] = 0
		a.bytes += c.bytes()
	}
	m.values[keys[4]], m.values[keys[5]], m.values[keys[6]] = changes, index, bytesByAuthor(a.changes)
	a.setState("bytes", a.bytes)
	for _, key := range keys {
		m.expire(key, overrideLifeMS)
	}
}

func bytesByAuthor(changes []loggedChange) map[string]int64 {
	of := map[string]int64{}
	for _, c := range changes {
		of[c.author] += c.bytes()
	}
	return of
}
