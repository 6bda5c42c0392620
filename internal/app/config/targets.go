package config

import "strings"

// Targets are Graphite targets. As text they are joined by ",", as the
// arguments of Graphite's functions are, so only those outside of brackets
// part two of them.
type Targets []string

// UnmarshalText splits the text.
func (t *Targets) UnmarshalText(text []byte) error {
	*t = nil
	depth, start := 0, 0
	for i, c := range text {
		switch c {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		case ',':
			if depth == 0 {
				*t = append(*t, strings.TrimSpace(string(text[start:i])))
				start = i + 1
			}
		}
	}
	*t = append(*t, strings.TrimSpace(string(text[start:])))
	return nil
}
