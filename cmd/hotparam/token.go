package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/hotparam/pipeline/internal/serving/auth"
)

// tokenCmd makes a token of the admin listener. The configuration file gets its hash.
type tokenCmd struct {
	Name    string        `default:"me" help:"Who will hold it: the author of what it changes."`
	Role    string        `enum:"viewer,operator,admin" default:"viewer" help:"What it may do: ${enum}."`
	Expires time.Duration `placeholder:"DURATION" help:"How long it holds, such as 2160h; default: until it is taken out of the file."`
	Stdin   bool          `help:"Read the token from standard input instead of making one."`
}

func (c *tokenCmd) Run(k *kong.Kong) error {
	if c.Expires < 0 {
		return usage("token: --expires %v: want more than 0", c.Expires)
	}
	token := auth.NewToken()
	if c.Stdin {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // what cannot be read is short
		token = strings.TrimSpace(line)
		if len(token) < auth.MinToken {
			return usage("token: --stdin: want a line of at least %d characters", auth.MinToken)
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
		return usage("token: %v", err)
	}
	if !c.Stdin {
		fmt.Fprintf(k.Stdout, "# The token, shown this once:\n# %s\n", token)
	}
	fmt.Fprintf(k.Stdout, "admin:\n  tokens:\n    %q: %s\n", c.Name, line)
	return nil
}
