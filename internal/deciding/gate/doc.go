// Package gate decides: one request goes in, one verdict comes out. The function decide is the order
// of a decision.
//
// What applies to a key, first match wins: an override of exactly that key, an
// override whose pattern matches it, the rule's value list, the rule. Only hot
// keys are charged to their rule's limit; an override's limit applies hot or not, and so does
// the rule's policy for malformed requests.
//
// A request may have several keys: one for each of several values, and those of
// several rules. It is denied if one of them is, and exempt only if all its keys
// under some rule are.
//
// All charges of a decision are taken together or not at all. Limits of one
// process are in Local, limits of the cluster in Shared. So a request needs no call
// of the shared store unless its key is hot (or has an override, or is malformed)
// or per-IP windows are shared, and then it needs one.
//
// A store that has denied a key is not called again for it before it could allow it. If several limits deny, the
// verdict therefore covers those that were evaluated: its reason is the first of them, its wait the longest.
//
// When the shared store fails, the failure policy of its rule decides about each charge, and the request is allowed
// only if all of them allow it. One deadline, Config.Budget, bounds all calls of a decision; a breaker for each server
// limits the decisions that wait for it in an outage to about four a second. A charge that the shared store allows for
// a key is also charged to this process's share of the limit, so that an outage does not begin with a full bucket.
//
// The gate runs nothing in the background and needs no closing.
package gate
