package access

import "errors"

// Role is what a caller may do. Each role may do what those before it may.
type Role uint8

const (
	// Viewer reads everything.
	Viewer Role = iota + 1
	// Operator acts in an incident: overrides, purges, resets.
	Operator
	// Admin changes what the pipeline is: rules, and what is kept.
	Admin
)

var roleNames = [...]string{"nobody", "viewer", "operator", "admin"}

func (r Role) String() string { return roleNames[min(int(r), len(roleNames)-1)] }

// ParseRole reads the name of a role. The error does not repeat the text, which may
// be a token that stands in the wrong place.
func ParseRole(text string) (Role, error) {
	for r := Viewer; r <= Admin; r++ {
		if text == r.String() {
			return r, nil
		}
	}
	return 0, errors.New("the role is none of viewer, operator, admin")
}
