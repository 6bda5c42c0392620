package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/app/config"
	"github.com/hotparam/pipeline/internal/serving/auth"
)

// tokenCmd makes a token of the admin listener. The configuration file holds only its hash.
type tokenCmd struct {
	outputFlags
	Name    string        `default:"me" help:"Name of the holder, the author of changes made with the token."`
	Role    string        `enum:"viewer,operator,admin" default:"viewer" help:"Role: ${enum}."`
	Expires time.Duration `placeholder:"DURATION" help:"Lifetime, such as 2160h; default: until it is removed from the file."`
	Stdin   bool          `help:"Read the token from standard input instead of making one."`
}

func (c *tokenCmd) Run(k *kong.Kong) error {
	if c.Expires < 0 {
		return config.Usage("token: --expires %v must be above 0", c.Expires)
	}
	token := auth.NewToken()
	if c.Stdin {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // after a failed read the line is too short
		token = strings.TrimSpace(line)
		if len(token) < auth.MinToken {
			return config.Usage("token: --stdin must have a line of at least %d characters", auth.MinToken)
		}
		if err := auth.CheckToken("stdin", token); err != nil {
			return err
		}
	}
	role, err := auth.ParseRole(c.Role)
	if err != nil {
		return err
	}
	var until time.Time
	if c.Expires > 0 {
		until = time.Now().Add(c.Expires).Truncate(time.Second)
	}
	line := auth.FormatToken(role, token, until)
	if _, err := auth.ParseTokens("name", map[string]string{c.Name: line}); err != nil {
		return config.Usage("token: %v", err)
	}
	made := madeToken{Name: c.Name, Line: line}
	if !c.Stdin {
		made.Token = token
	}
	return c.Print(k.Stdout, made, made.write)
}

// madeToken is a token, which is "" if it was read and not made, and the line of the configuration file with its hash.
type madeToken struct {
	Name  string `json:"name"`
	Token string `json:"token,omitempty"`
	Line  string `json:"line"`
}

func (m *madeToken) write(out io.Writer) error {
	if m.Token != "" {
		fmt.Fprintf(out, "# The token, shown this once:\n# %s\n", m.Token)
	}
	_, err := fmt.Fprintf(out, "admin:\n  tokens:\n    %q: %s\n", m.Name, m.Line)
	return err
}
