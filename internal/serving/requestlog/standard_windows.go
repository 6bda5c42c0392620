package requestlog

import "os"

// openStandard returns the standard output or error, or nil for another name.
func openStandard(name string) (*os.File, error) {
	return map[string]*os.File{"stdout": os.Stdout, "stderr": os.Stderr}[name], nil
}
