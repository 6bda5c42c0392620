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

// ClaimHot and the functions below are the scripts of what processes tell each other, each as its file says.
func ClaimHot() string         { return claimHot }
func PublishHot() string       { return publishHot }
func PublishBounds() string    { return publishBounds }
func RestoreOverrides() string { return restoreOverrides }
func WriteCommand() string     { return writeCommand }
func WriteOverride() string    { return writeOverride }
func WriteReport() string      { return writeReport }
func WriteRules() string       { return writeRules }
