package main

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
)

// unconfirmed is the error of a change that needs a confirmation because it would deny much or take something away.
type unconfirmed struct{ detail string }

func (u *unconfirmed) Error() string { return u.detail + "; add --yes if that is meant" }

type confirmFlags struct {
	Yes bool `help:"Confirm a change that has a wide reach or removes something; without it you are asked."`
}

var confirmed = url.Values{"confirm": {"true"}}

// changeConfirmed makes a change, with a confirmation if the change needs one: by --yes, or by a yes typed at a
// terminal.
func (c *confirmFlags) changeConfirmed(k *kong.Kong, change func(word url.Values) error) error {
	if c.Yes {
		return change(confirmed)
	}
	err := change(nil)
	u, ok := errors.AsType[*unconfirmed](err)
	if !ok || !isatty.IsTerminal(os.Stdin.Fd()) {
		return err
	}
	fmt.Fprintf(k.Stderr, "%s\ntype yes to make the change all the same: ", u.detail)
	if line, _ := bufio.NewReader(os.Stdin).ReadString('\n'); strings.TrimSpace(line) != "yes" { // a failed read is no
		return errors.New("nothing was changed")
	}
	return change(confirmed)
}

// mergeQueries returns the parameters of all queries in list. Of a name that several have, the last value wins.
func mergeQueries(list ...url.Values) url.Values {
	all := url.Values{}
	for _, q := range list {
		maps.Copy(all, q)
	}
	return all
}
