package lua

import _ "embed"

var (
	//go:embed claim_hot.lua
	claimHot string
	//go:embed publish_hot.lua
	publishHot string
	//go:embed publish_bounds.lua
	publishBounds string
	//go:embed restore_overrides.lua
	restoreOverrides string
	//go:embed write_command.lua
	writeCommand string
	//go:embed write_override.lua
	writeOverride string
	//go:embed write_report.lua
	writeReport string
	//go:embed write_rules.lua
	writeRules string
)

// ClaimHot is the script by which a process takes a publisher's id and gives it
// back; see claim_hot.lua.
func ClaimHot() string { return claimHot }

// PublishHot is the script that makes a new version of one publisher's hot set;
// see publish_hot.lua.
func PublishHot() string { return publishHot }

// PublishBounds is the script that stores what upstreams bear; see publish_bounds.lua.
func PublishBounds() string { return publishBounds }

// RestoreOverrides is the script that writes overrides back which Redis lost; see
// restore_overrides.lua.
func RestoreOverrides() string { return restoreOverrides }

// WriteCommand is the script that tells a command to every limiter; see
// write_command.lua.
func WriteCommand() string { return writeCommand }

// WriteOverride is the script that puts, deletes and trims overrides; see
// write_override.lua.
func WriteOverride() string { return writeOverride }

// WriteReport is the script that stores one limiter's report; see
// write_report.lua.
func WriteReport() string { return writeReport }

// WriteRules is the script that changes the rules in the central store; see
// write_rules.lua.
func WriteRules() string { return writeRules }
