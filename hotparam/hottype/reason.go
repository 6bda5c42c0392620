package hottype

import (
	"fmt"
	"iter"
	"strconv"
)

// Reason is the reason of a verdict. Its text, in JSON and elsewhere, is part of the HTTP contract. The zero value
// means no reason; its text is empty.
//
// It is wider than a byte so that go vet reports string(r), which is not its text: use [Reason.String].
type Reason uint16

// The reasons of a verdict; [ReasonInfo] explains each.
const (
	ReasonNoRule Reason = 1 + iota
	ReasonCold
	ReasonHot
	ReasonFair
	ReasonOverride
	ReasonCached
	ReasonExempt
	ReasonBlocked
	ReasonMalformed
	ReasonIPFixed
	ReasonIPSliding
	ReasonClientFixed
	ReasonClientSliding
	ReasonInFlight
	ReasonIPInFlight
	ReasonStore

	numReasons = iota + 1 // 0 included
)

// ReasonInfo holds everything that the programs know of a reason. Code that counts or shows reasons reads it, so a new
// reason is one constant and one entry here.
type ReasonInfo struct {
	Name    string // in JSON, header fields and metrics
	Meaning string // a sentence
	// Allows and Denies are true if a request can be allowed and denied for this reason.
	Allows, Denies bool
	// OfClient is true if a limit of the client denies, before the limits of the request's keys.
	OfClient bool

	// The other fields are set for reasons that deny, in words for people: Short on the dashboard, behind a number of
	// requests; Replayed in the report of a replay, likewise; Title and Detail in the response to the client, which
	// must learn nothing of the rules from them.
	Short, Replayed, Title, Detail string
}

const (
	titleTooMany = "Too many requests"
	titlePopular = "Many people want this right now"
	detailKey    = "There were too many requests for this resource."
	detailClient = "There were too many requests from your address."
	// The client may be named by a field, so the text does not name its address.
	detailClientRule = "There were too many requests of this kind from you."
)

var reasons = [numReasons]ReasonInfo{
	ReasonNoRule: {
		Name: "no_rule", Meaning: "No rule matched; the per-IP windows passed.", Allows: true,
	},
	ReasonCold: {
		Name: "cold", Meaning: "A rule matched and its key is not hot; the per-IP windows passed.", Allows: true,
	},
	ReasonHot: {
		Name: "hot", Meaning: "The key is hot; its limit decided.", Allows: true, Denies: true,
		Short: "on hot keys", Replayed: "by the limits of hot keys", Title: titlePopular, Detail: detailKey,
	},
	ReasonFair: {
		Name: "fair", Meaning: "The key's limit is divided among clients and this client used its share.", Denies: true,
		Short: "over their share", Replayed: "by their client's share of a hot key's limit", Title: titlePopular,
		Detail: "There were too many requests from you for this resource; others ask for it too.",
	},
	ReasonOverride: {
		Name: "override", Meaning: "An override's own limit decided.", Allows: true, Denies: true,
		Short: "overrides", Replayed: "by overrides", Title: titlePopular, Detail: detailKey,
	},
	ReasonCached: {
		Name: "cached", Meaning: "The response cache answered; the per-IP windows passed.", Allows: true,
	},
	ReasonExempt: {
		Name: "exempt", Meaning: "An override or an exempt address lets the request pass.", Allows: true,
	},
	ReasonBlocked: {
		Name: "blocked", Meaning: "An override blocks the key.", Denies: true,
		Short: "blocked", Replayed: "by blocks", Title: "Blocked", Detail: "This request is blocked.",
	},
	ReasonMalformed: {
		Name: "malformed",
		Meaning: "The request exceeds the limits of keys; its rule denies such requests, or " +
			"applies its limit to them.",
		Allows: true, Denies: true,
		Short: "malformed", Replayed: "because their query is beyond the limits",
		Title:  "This address cannot be used",
		Detail: "The path or the query of this request is too long, or the query has too many or too long parameters.",
	},
	ReasonIPFixed: {
		Name: "ip_fixed", Meaning: "The client's fixed window is full.", Denies: true, OfClient: true,
		Short: "per address", Replayed: "by the fixed window of their client",
		Title: titleTooMany, Detail: detailClient,
	},
	ReasonIPSliding: {
		Name: "ip_sliding", Meaning: "The client's sliding window is full.", Denies: true, OfClient: true,
		Short: "per address, long", Replayed: "by the sliding window of their client",
		Title: titleTooMany, Detail: detailClient,
	},
	ReasonClientFixed: {
		Name: "client_fixed", Meaning: "The client's fixed window for the requests of a rule is full.",
		Denies: true, OfClient: true,
		Short: "per client and rule", Replayed: "by the fixed window of their client for a rule",
		Title: titleTooMany, Detail: detailClientRule,
	},
	ReasonClientSliding: {
		Name: "client_sliding", Meaning: "The client's sliding window for the requests of a rule is full.",
		Denies: true, OfClient: true,
		Short: "per client and rule, long", Replayed: "by the sliding window of their client for a rule",
		Title: titleTooMany, Detail: detailClientRule,
	},
	ReasonInFlight: {
		Name: "in_flight", Meaning: "The maximum number of requests for the key is in flight.", Denies: true,
		Short: "in flight", Replayed: "because too many for their key were in flight",
		Title: titlePopular, Detail: detailKey,
	},
	ReasonIPInFlight: {
		Name: "ip_in_flight", Meaning: "The maximum number of requests of the client is in flight.",
		Denies: true, OfClient: true,
		Short: "in flight per address", Replayed: "because too many of their client were in flight",
		Title: titleTooMany, Detail: "There are too many requests from your address at the same time.",
	},
	ReasonStore: {
		Name:    "store_failure",
		Meaning: "The shared store did not answer and the failure policy is open (allowed) or closed (denied).",
		Allows:  true, Denies: true,
		Short: "store down", Replayed: "because the store failed",
		Title: "Not available at the moment", Detail: "Limits cannot be checked at the moment.",
	},
}

// Reasons iterates over all reasons.
func Reasons() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for r := Reason(1); r < numReasons && yield(r); r++ {
		}
	}
}

// Info returns the properties of the reason, or the zero value for an unknown reason.
func (r Reason) Info() ReasonInfo {
	if r >= numReasons {
		return ReasonInfo{}
	}
	return reasons[r]
}

// String returns the name.
func (r Reason) String() string {
	if r >= numReasons {
		return "reason " + strconv.Itoa(int(r))
	}
	return reasons[r].Name
}

// MarshalText returns the name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText accepts a name or an empty text; other text is an error.
func (r *Reason) UnmarshalText(name []byte) error {
	for i := range reasons {
		if reasons[i].Name == string(name) {
			*r = Reason(i)
			return nil
		}
	}
	return fmt.Errorf("hottype: no reason is named %q", name)
}
