package report

import "github.com/hotparam/pipeline/hotparam/hottype"

// CommandAction is the action of a Command.
type CommandAction string

// The actions.
const (
	// CommandReset forgets the use that a key or a client has made of its limits.
	CommandReset CommandAction = "reset"
	// CommandPurge removes the responses for a key from response caches.
	CommandPurge CommandAction = "purge"
	// CommandTrace records for a minute the requests of a client, or of a network as its name, and their verdicts.
	CommandTrace CommandAction = "trace"
)

// Command is an order of a person to all limiters at once, for a key or for a client.
type Command struct {
	Action CommandAction
	Key    hottype.Key    // "" if the command is for Client
	Client hottype.Client // as limits know it: an IPv6 address stands for its prefix
}
