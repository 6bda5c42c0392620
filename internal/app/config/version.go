package config

import "runtime/debug"

// release is the version that a release was built as, set by the linker (.goreleaser.yaml).
var release string

// Version is the version of a release, else that of the module as the go command
// stamped it, else "devel" for a build from a checkout.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
