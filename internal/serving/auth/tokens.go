package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hotparam/pipeline/internal/textfile"
)

// Token is a token as it is in a configuration file: by its hash. SHA-256 without salt or stretching is enough for the
// tokens of [NewToken], which have 192 random bits.
type Token struct {
	Name  string // of its holder, the author of changes; "" for the token of a whole listener
	Role  Role
	Hash  [sha256.Size]byte
	Until time.Time // when it expires; zero for never
}

// hashPrefix names the kind of the hash in the file.
const hashPrefix = "sha256:"

// NewToken returns a random token.
func NewToken() string {
	var b [24]byte
	rand.Read(b[:]) // never fails, it ends the program instead
	return "hp_" + base64.RawURLEncoding.EncodeToString(b[:])
}

// FormatToken returns a token's line in the file without its name, in the form that [ParseTokens] reads.
func FormatToken(role Role, token string, until time.Time) string {
	sum := sha256.Sum256([]byte(token))
	line := role.String() + " " + hashPrefix + hex.EncodeToString(sum[:])
	if !until.IsZero() {
		line += " until " + until.UTC().Format(time.RFC3339)
	}
	return line
}

var holderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// ParseTokens reads the tokens of a listener by the name of their holder:
//
//	ann: operator sha256:64 hexadecimal digits until 2027-01-01
//
// A holder may have several tokens, separated by commas, so that one can be replaced without a gap. Errors name the
// holder and repeat nothing that could be a token.
func ParseTokens(setting string, lines map[string]string) ([]Token, error) {
	var all []Token
	owner := map[[sha256.Size]byte]string{}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		if !holderName.MatchString(name) {
			return nil, fmt.Errorf("auth: --%s: a name is longer than 64 characters, or has others than letters, "+
				"digits and . _ @ -", setting)
		}
		for line := range strings.SplitSeq(lines[name], ",") {
			t, err := parseToken(line)
			if err != nil {
				return nil, fmt.Errorf("auth: --%s: %s: %w; a line must be ROLE %sHEX, or ROLE %sHEX until DATE, as hotparam token "+
					"prints it", setting, name, err, hashPrefix, hashPrefix)
			}
			t.Name = name
			if other, twice := owner[t.Hash]; twice {
				return nil, fmt.Errorf("auth: --%s: %s has the same token as %s; make each its own with hotparam token",
					setting, name, other)
			}
			owner[t.Hash] = name
			all = append(all, t)
		}
	}
	return all, nil
}

func parseToken(line string) (t Token, err error) {
	words := strings.Fields(line)
	if len(words) != 2 && (len(words) != 4 || words[2] != "until") {
		return t, fmt.Errorf("it is not of 2 or 4 words")
	}
	if t.Role, err = ParseRole(words[0]); err != nil {
		return t, err
	}
	digits, ok := strings.CutPrefix(words[1], hashPrefix)
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != sha256.Size {
		return t, fmt.Errorf("the hash is not %s and %d hexadecimal digits", hashPrefix, 2*sha256.Size)
	}
	t.Hash = [sha256.Size]byte(hash)
	if len(words) == 4 {
		t.Until, err = parseUntil(words[3])
	}
	return t, err
}

func parseUntil(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("its end is neither a date (2027-01-01, in UTC) nor a time (RFC 3339)")
	}
	return at, nil
}

// sharedTokens returns the tokens of a whole listener, with every right, for the texts that are not empty.
func sharedTokens(texts ...string) (tokens []Token) {
	for _, text := range texts {
		if text != "" {
			tokens = append(tokens, Token{Role: Admin, Hash: sha256.Sum256([]byte(text))})
		}
	}
	return tokens
}

// findToken looks a token up, also an expired one. It compares hashes, which have the same length, and always all of
// them, so that the time that it takes reveals nothing about a token.
func findToken(tokens []Token, shown string) (found Token, ok bool) {
	got := sha256.Sum256([]byte(shown))
	for _, t := range tokens {
		if subtle.ConstantTimeCompare(got[:], t.Hash[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}

// MinToken is the minimum length of a token. 16 random characters of base64 are 96 bits, which cannot be guessed at any
// rate.
const MinToken = 16

// ReadTokens returns the tokens that a listener accepts: the text itself, or the one or two lines of the file, without
// white space around them. setting is the name of the setting in errors, such as "admin.token"; errors never contain
// the text. If neither is set, it returns no token.
func ReadTokens(setting, text, file string) ([]string, error) {
	switch {
	case file == "" && text == "":
		return nil, nil
	case file == "":
		return []string{text}, CheckToken(setting, text)
	case text != "":
		return nil, fmt.Errorf("auth: --%s and --%s_file are both set; keep one", setting, setting)
	}
	text, err := textfile.Secret(file)
	if err != nil {
		return nil, fmt.Errorf("auth: --%s_file: %w", setting, err)
	}
	var tokens []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			tokens = append(tokens, line)
			err = errors.Join(err, CheckToken(setting+"_file", line))
		}
	}
	if len(tokens) > maxShared {
		return nil, fmt.Errorf("auth: --%s_file: %s has %d lines, it must have one token, or two while one replaces the other",
			setting, file, len(tokens))
	}
	return tokens, err
}

// maxShared is the maximum number of tokens of a whole listener: a new one, and the one that it replaces.
const maxShared = 2

// CheckToken rejects a token that is short or cannot be sent in a header field.
func CheckToken(setting, token string) error {
	if fault := TokenFault(token); fault != "" {
		return fmt.Errorf("auth: --%s: %s", setting, fault)
	}
	return nil
}

// TokenFault returns the reason why a token is rejected and a remedy, or "" if it is valid.
func TokenFault(token string) string {
	const remedy = "; make one with: openssl rand -hex 24"
	switch {
	case token == "":
		return ""
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "the token holds a space, a control character or one beyond ASCII" + remedy
	case len(token) < MinToken:
		return fmt.Sprintf("the token has %d characters, it must have at least %d%s", len(token), MinToken, remedy)
	}
	return ""
}

// Role is the set of rights of a caller. Each role includes the rights of the roles before it.
type Role uint8

const (
	// Viewer reads everything.
	Viewer Role = iota + 1
	// Operator acts in an incident: overrides, purges, resets.
	Operator
	// Admin changes the pipeline itself: its rules, and the data that it keeps.
	Admin
)

var roleNames = [...]string{"nobody", "viewer", "operator", "admin"}

func (r Role) String() string { return roleNames[min(int(r), len(roleNames)-1)] }

// ParseRole parses the name of a role. The error does not repeat the text, which may be a token in the wrong place.
func ParseRole(text string) (Role, error) {
	for r := Viewer; r <= Admin; r++ {
		if text == r.String() {
			return r, nil
		}
	}
	return 0, errors.New("the role must be viewer, operator or admin")
}
