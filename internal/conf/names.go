package conf

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ValidID reports whether s may name a publisher or a limiter in Redis: 1 to 128 printable characters without spaces,
// so that a person can read the name in redis-cli.
func ValidID(s string) bool {
	unprintable := func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }
	return len(s) >= 1 && len(s) <= 128 && utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0
}

// ValidInstance reports whether s may name a static member of a Kafka consumer group: at most 249 letters, digits,
// dots, underscores and hyphens. The empty name is valid, and means a member that is not static.
func ValidInstance(s string) bool {
	return len(s) <= 249 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}
