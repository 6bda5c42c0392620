package lua

import _ "embed"

var (
	//go:embed publish_hot.lua
	publishHot string
	//go:embed write_override.lua
	writeOverride string
	//go:embed write_report.lua
	writeReport string
)

// PublishHot is the script that replaces one publisher's hot set; see
// publish_hot.lua.
func PublishHot() string { return publishHot }

// WriteOverride is the script that puts, deletes and trims overrides; see
// write_override.lua.
func WriteOverride() string { return writeOverride }

// WriteReport is the script that stores one limiter's report; see
// write_report.lua.
func WriteReport() string { return writeReport }
