package rules

import (
	"strings"
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
)

// Change is one entry of the audit of live overrides.
type Change struct {
	// Revision numbers the changes of a namespace: it grows with each. Changes
	// that were restored together share one.
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	// Action is ChangePut or ChangeDelete. An undo is one of them too: it
	// reverses another change.
	Action string `json:"action"`
	ID     string `json:"id"`
	// Before is nil if there was no override, After if it was deleted.
	Before *Override `json:"before,omitempty"`
	After  *Override `json:"after,omitempty"`
}

// Numbered is the change with its revision. If the program that wrote it set none, the revision is
// made from the time.
func (c Change) Numbered() Change {
	if c.Revision == 0 && !c.At.IsZero() {
		c.Revision = c.At.UnixMicro()
	}
	return c
}

// The actions of a change.
const (
	ChangePut    = "put"
	ChangeDelete = "delete"
)

// shadowPrefix begins the action of an override in shadow mode as it is stored.
const shadowPrefix = "shadow_"

// Stored is the override as stores write it: one in shadow mode has the action
// "shadow_limit" or "shadow_block" and no mode. A program that does not know the mode
// then finds an unknown action and ignores the override. If the mode were a field, that
// program would ignore the field and enforce the override.
func (o Override) Stored() Override {
	if o.InShadow() {
		o.Action, o.Mode = shadowPrefix+o.Action, ""
	}
	return o
}

// Loaded is the override that was stored.
func (o Override) Loaded() Override {
	if action, tried := strings.CutPrefix(string(o.Action), shadowPrefix); tried {
		o.Action, o.Mode = Action(action), hottype.ModeShadow
	}
	return o
}

// Stored is the change as stores write it; see [Override.Stored].
func (c Change) Stored() Change { return c.each(Override.Stored) }

// Loaded is the change that was stored.
func (c Change) Loaded() Change { return c.each(Override.Loaded) }

func (c Change) each(f func(Override) Override) Change {
	for _, o := range []**Override{&c.Before, &c.After} {
		if *o != nil {
			converted := f(**o)
			*o = &converted
		}
	}
	return c
}
