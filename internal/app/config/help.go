package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpAll is the argument that shows every setting of a command. --help shows only settings that have a group.
const helpAll = "--help-all"

// groups are the headings of settings in --help, in the order in which people need them.
var groups = []kong.Group{
	{Key: "rules", Title: "Rules:"},
	{Key: "requests", Title: "Requests to judge:"},
	{Key: "counts", Title: "Counts:"},
	{Key: "state", Title: "State:"},
	{Key: "operate", Title: "Operation:"},
}

// printHelp prints the help of a command. A program has over a hundred settings, so that without helpAll its help shows
// only those with a group. Commands without such settings show all flags.
func (p *Parser) printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	selected := ctx.Selected()
	if selected == nil {
		selected = ctx.Model.Node
	}
	hidden := 0
	if slices.ContainsFunc(selected.Flags, func(f *kong.Flag) bool { return f.Group != nil }) {
		hidden = arrangeFlags(selected, p.helpAll)
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil || len(selected.Children) > 0 {
		return err
	}
	if settings := slices.ContainsFunc(selected.Flags, isSetting); settings {
		fmt.Fprint(ctx.Stdout, "\nA setting such as --admin.listen is also listen in the section admin of the file, and the "+
			"variable\nHOTPARAM_ADMIN_LISTEN; the flag wins, then the variable.\n")
	}
	if hidden > 0 {
		fmt.Fprintf(ctx.Stdout, "\n%d more settings: %s %s\n", hidden, selected.FullPath(), helpAll)
	}
	return nil
}

// arrangeFlags sorts the flags of a command by group, and returns how many settings it hid.
func arrangeFlags(command *kong.Node, all bool) (hidden int) {
	for _, f := range command.Flags {
		if !all && f.Group == nil && isSetting(f) && !f.Hidden {
			f.Hidden = true
			hidden++
		}
	}
	rank := func(f *kong.Flag) int {
		return slices.IndexFunc(groups, func(g kong.Group) bool { return f.Group != nil && g.Key == f.Group.Key })
	}
	slices.SortStableFunc(command.Flags, func(a, b *kong.Flag) int { return rank(a) - rank(b) })
	return hidden
}

// isSetting reports whether a flag is also a field of the configuration file.
func isSetting(f *kong.Flag) bool { return strings.Contains(f.Name, ".") }

// takeHelpAll returns args with --help in place of --help-all, and reports whether it was there.
func takeHelpAll(args []string) ([]string, bool) {
	i := slices.Index(args, helpAll)
	if end := slices.Index(args, "--"); i < 0 || end >= 0 && end < i {
		return args, false
	}
	args = slices.Clone(args)
	args[i] = "--help"
	return args, true
}
