package config

import "runtime/debug"

// Version is the module's version as the go command stamped it, "devel" for a
// build from a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
