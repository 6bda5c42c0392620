package main

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// changedSince returns the faults that a change since a commit may have made unnoticed, by the files that differ from
// it in the working tree.
func changedSince(ctx context.Context, commit string, all []fault) ([]fault, error) {
	cmd := exec.CommandContext(ctx, "git", "-C", "..", "diff", "--name-only", "--merge-base", commit, "--")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("-since %s: %s: %w", commit, strings.Join(cmd.Args, " "), err)
	}
	return touched(all, strings.Split(strings.TrimSpace(string(out)), "\n")), nil
}

// touched returns the faults in the changed files, then the faults that tests of the changed packages should notice.
func touched(all []fault, changed []string) (some []fault) {
	var byTests []fault
	for _, f := range all {
		switch {
		case slices.Contains(changed, f.file):
			some = append(some, f)
		case slices.ContainsFunc(changed, func(name string) bool {
			return strings.HasSuffix(name, "_test.go") && "./"+path.Dir(name) == f.pkg
		}):
			byTests = append(byTests, f)
		}
	}
	return append(some, byTests...)
}
