package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/hotparam/pipeline/internal/rules"
)

// currentName gives the name of a setting for a spelling of it: the name it has now, with underscores.
func currentName(spelling string) string {
	name := strings.ReplaceAll(spelling, "-", "_")
	if now, ok := rules.CurrentName(name); ok {
		return now
	}
	return name
}

// renamed is the warning about an old spelling; where is a flag, a variable, or a file and line.
func renamed(where, now string) string {
	return fmt.Sprintf("%s is an old spelling and is still read; write %s", where, now)
}

// both is the error about a setting that stands in one place under two names.
func both(first, second string) error {
	return fmt.Errorf("%s and %s are the same setting; keep one", first, second)
}

// currentArgs writes the settings of a command line by their current names and warns of the old ones. Other arguments
// stay as they are.
func currentArgs(args []string) (current, warnings []string, err error) {
	spelled := map[string]string{} // the first spelling of each setting
	for i, arg := range args {
		if arg == "--" {
			return append(current, args[i:]...), warnings, nil
		}
		flag, _, _ := strings.Cut(arg, "=")
		spelling, dashes := strings.CutPrefix(flag, "--")
		bare, no := strings.CutPrefix(spelling, "no-")
		now := currentName(bare)
		if !dashes || knownFlags()[now] == nil {
			current = append(current, arg)
			continue
		}
		if first, twice := spelled[now]; twice && first != bare {
			return nil, nil, fmt.Errorf("%w: %w", ErrUsage, both("--"+first, "--"+bare))
		}
		spelled[now] = bare
		if no {
			now = "no-" + now
		}
		if now != spelling {
			warnings = append(warnings, renamed("--"+spelling, "--"+now))
		}
		current = append(current, strings.Replace(arg, spelling, now, 1))
	}
	return current, warnings, nil
}

// fromOldVariable reads a setting from the environment variable of its old name; value is nil where it is not set.
func fromOldVariable(name string, isSet bool) (value any, warning string, err error) {
	old := rules.OldName(name)
	if old == "" {
		return nil, "", nil
	}
	text, ok := os.LookupEnv(variable(old))
	switch {
	case !ok:
		return nil, "", nil
	case isSet:
		return nil, "", both(variable(old), variable(name))
	}
	return text, renamed(variable(old), variable(name)), nil
}

// variable is the environment variable of a setting.
func variable(name string) string {
	return "HOTPARAM_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}
