package access

import (
	"fmt"
	"os"
	"strings"
)

// MinToken is the least length of a token. 16 random characters of base64 are 96
// bits, which nobody guesses at any rate.
const MinToken = 16

// ReadToken is the token that a listener asks for: the text itself, or what the file
// holds, without white space around it. setting is its name in errors, such as
// "admin.token"; the text is in none. Neither given is no token.
func ReadToken(setting, text, file string) (string, error) {
	if file == "" {
		return text, CheckToken(setting, text)
	}
	if text != "" {
		return "", fmt.Errorf("access: --%s and --%s_file are both set; keep one", setting, setting)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("access: --%s_file: %w", setting, err)
	}
	text = strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("access: --%s_file: %s is empty; write one with: openssl rand -hex 24 > %s", setting,
			file, file)
	}
	return text, CheckToken(setting+"_file", text)
}

// CheckToken refuses a token that is short or cannot stand in a header field.
func CheckToken(setting, token string) error {
	switch {
	case token == "":
		return nil
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("access: --%s: the token holds a space, a control character or one beyond ASCII; "+
			"make one with: openssl rand -hex 24", setting)
	case len(token) < MinToken:
		return fmt.Errorf("access: --%s: the token has %d characters, want at least %d; "+
			"make one with: openssl rand -hex 24", setting, len(token), MinToken)
	}
	return nil
}
