package hottype

import "strings"

// InvalidTargetReason says why no server should take a request target, "" where it is one
// of RFC 9112: a path with an optional query, the absolute form, or "*". Upstreams
// disagree about what a faulty target asks for (one cuts it at a "#", another
// reads "http:/topic" as "/topic"), so that a limit in front of them cannot know.
// CONNECT has targets of its own form.
func InvalidTargetReason(method, target string) string {
	if len(target) > 8 && target[0] == '/' && plain(target) {
		return "" // nearly all, without a call
	}
	return targetFault(method, target)
}

func targetFault(method, target string) string {
	if at := faultyByte(target); at >= 0 {
		switch target[at] {
		case '#':
			return "a raw \"#\": a fragment is never sent"
		case '\\':
			return "a raw backslash"
		}
		return "a raw space or control character"
	}
	if target == "" || target[0] == '/' || method == "CONNECT" {
		return ""
	}
	if i := strings.IndexAny(target, ":/?"); i > 0 && target[i] == ':' && !strings.HasPrefix(target[i:], "://") {
		return "a scheme without \"//\""
	}
	return ""
}

// faulty sample hashes the bytes that no target holds as they are.
var faulty = func() (t [256]bool) {
	for c := range 0x21 {
		t[c] = true
	}
	t[0x7f], t['#'], t['\\'] = true, true, true
	return t
}()

// faultyByte is where the first such byte stands, -1 where there is none.
func faultyByte(target string) int {
	for i := 0; i < len(target); i++ {
		if faulty[target[i]] {
			return i
		}
	}
	return -1
}

// plain reports whether no byte of a target of at least eight is faulty or beyond
// ASCII, eight bytes at a time: every request comes through here. To subtract from a
// byte sets its high bit where it is smaller, exclusive-or makes equal bytes zero.
func plain(target string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	found := uint64(0)
	for i := 0; ; i = min(i+8, len(target)-8) {
		s := target[i : i+8]
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		found |= x | (x - ones*0x21) | ((x ^ ones*'#') - ones) | ((x ^ ones*'\\') - ones) | (x + ones)
		if i == len(target)-8 {
			return found&high == 0
		}
	}
}

// CommandAction is what a Command does.
type CommandAction string

// The actions.
const (
	// CommandReset forgets what a key or a client has used of its limits.
	CommandReset CommandAction = "reset"
	// CommandPurge removes the answers for a key from response caches.
	CommandPurge CommandAction = "purge"
)

// Command is what a person has every limiter do at once, for a key or for a client.
type Command struct {
	Action CommandAction
	Key    Key    // "": for Client
	Client Client // as limits know it: an IPv6 address stands for its prefix
}
