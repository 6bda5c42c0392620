// Package gate decides: one request goes in, one verdict comes out.
//
//	request ──> rules ──> keys ──> overrides ──> per-IP windows ──> hot key's limit ──> verdict
//	                       │        (memory)      one Take, all or nothing
//	                       └──> Counter (never waited for)
//
// What applies to a key, first match wins: an override of exactly that key, an
// override whose pattern matches it, the rule's value list, the rule. Only hot
// keys meet their rule's limit; an override's limit holds hot or not, and so does
// what the rule says about malformed requests.
//
// A request may have several keys: one for each of several values, and those of
// several rules. It is denied if one of them is, and exempt only if all its keys
// under some rule are.
//
// All charges of a decision are taken together or not at all. Limits of one
// process are in Local, limits of the cluster in Shared; a decision that has
// both asks Local first and gives back what it took there if Shared denies. So
// a request costs the shared store nothing unless its key is hot (or has an
// override, or is malformed) or per-IP windows are shared, and then one call. Only a limit in
// shadow mode of scope cluster beside an enforced one of that scope costs a
// second.
//
// A store that has refused a key is not asked again for it before it could say
// yes, so that a viral key costs it one call for each token and not one for
// each request. Of several limits that deny, a verdict therefore knows those
// that were asked: its reason is the first of them in the order above, its wait
// the longest.
//
// A shadow limit is judged after everything else has admitted the request, by
// itself: it never denies and never keeps an enforced limit from charging.
//
// When the shared store fails, each of its charges is judged by the policy of
// its own rule, and the request permits only if all of them let it: closed
// denies, local asks the in-process store for this process's share, open lets
// pass. One deadline, Config.Budget, bounds all calls of a decision; a breaker
// keeps a dead store from costing that much more than four times a second. A
// store that is SharedStore has a breaker for each of its servers: where one is out,
// the charges that lie there go by their policies, and the store is asked for the
// others of the same request. What the shared store admits for a key is charged to
// this process's share of its limit too, so that an outage does not begin with a
// full bucket.
//
// The gate runs nothing in the background and needs no closing.
package gate
