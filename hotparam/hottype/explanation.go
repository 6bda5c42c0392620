package hottype

// Explanation says how one key of a request is judged, and why.
type Explanation struct {
	// Rule is the name of the rule that matches, Key the key that the request is counted under. Both are "" if no rule
	// matches, or if the path is too long to be matched.
	Rule string
	Key  Key
	// Also has the other keys of the request under the rule: the request is denied if one of its keys is.
	Also []Key
	// Malformed is true if the key has only malformed requests of the rule: the query or the target is beyond the
	// bounds, or upstreams read it in different ways.
	Malformed bool
	// ParseAs is how the rule reads targets.
	ParseAs string
	// Class and Client are whom the windows of clients hold for. Class is "" for a client without a class, Client for
	// an unknown client.
	Class, Client string
	// Hot is true if the key is hot now, so that the limit of its rule holds.
	Hot bool
	// Override is the ID of the override that is in force, "" if there is none: an override that blocks the client,
	// else the override of the key, else that of the client. Overrides in shadow mode are only in Limits.
	Override string
	// Limits says in a sentence each what holds for the key and for the client, in the order in which it decides.
	Limits []string
}
