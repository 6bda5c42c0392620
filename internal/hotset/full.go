package hotset

import "fmt"

// Full is a rule that has more hot keys than places.
type Full struct {
	Rule     string
	Places   int
	Unplaced int // minimum number of keys that found no place, or 0 if unknown
}

// String describes the consequence and the remedy.
func (f Full) String() string {
	who := "keys over the threshold may find"
	if f.Unplaced > 0 {
		who = fmt.Sprintf("%d keys over the threshold, or more, find", f.Unplaced)
	}
	return fmt.Sprintf("The hot set of rule %q is full: %s no place among %d (max_hot) and are not limited. "+
		"Raise max_hot, or find the client that asks for so many keys.", f.Rule, who, f.Places)
}
