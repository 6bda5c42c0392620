package report

import "github.com/hotparam/pipeline/hotparam/hottype"

// CommandAction is what a Command does.
type CommandAction string

// The actions.
const (
	// CommandReset forgets what a key or a client has used of its limits.
	CommandReset CommandAction = "reset"
	// CommandPurge removes the answers for a key from response caches.
	CommandPurge CommandAction = "purge"
	// CommandTrace records for a minute what a client, or a network as its name, asks for and what is decided.
	CommandTrace CommandAction = "trace"
)

// Command is what a person has every limiter do at once, for a key or for a client.
type Command struct {
	Action CommandAction
	Key    hottype.Key    // "": for Client
	Client hottype.Client // as limits know it: an IPv6 address stands for its prefix
}
