package hottype

// Explanation describes how and why one key of a request is judged.
type Explanation struct {
	// Rule is the name of the rule that matches, Key the key under which the request is counted. Both are "" if no rule
	// matches, or if the path is too long to be matched.
	Rule string
	Key  Key
	// Also holds the other keys of the request under the rule: the request is denied if one of its keys is.
	Also []Key
	// Malformed is true if the key has only malformed requests of the rule: the query or the target is beyond the
	// bounds, or upstreams read it in different ways.
	Malformed bool
	// ParseAs is the way in which the rule reads targets.
	ParseAs string
	// Class and Client identify the client to which windows of clients apply. Class is "" for a client without a class,
	// Client for an unknown client.
	Class, Client string
	// Hot is true if the key is hot now, so that the limit of its rule applies.
	Hot bool
	// Override is the ID of the override that is in force, or "" if there is none: an override that blocks the client,
	// else the override of the key, else the override of the client. Overrides in shadow mode are only in Limits.
	Override string
	// Limits describes in one sentence each the limits of the key and of the client, in the order in which they decide.
	Limits []string
}
