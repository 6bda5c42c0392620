// Package conf reads a configuration, YAML, JSON or a Go value, into structs whose field tags state what is allowed.
// It reports all that is wrong, each error with line and path of its field.
//
//	YAML ── Document ──┐
//	                   ├─ nodes ── Decode ──┐
//	JSON ── JSON ──────┘                    ├─> Value ── Settle: defaults, tags, checks ──> errors, or a complete struct
//	Go ─────────────────────────── FromGo ──┘
//
// The tags of a field:
//
//	name:"rate"            its name in YAML; ",inline" for the fields of an embedded struct
//	required:"true"        it has to be set
//	default:"5s"           its value where it is not set
//	in:"1s..10m"           bounds of a whole number, a time or an amount of memory; a decimal is above the first
//	within:"0.5..0.99"     bounds of a decimal, both included
//	step:"1s"              a time is a multiple of it
//	words:"a,b"            the words for it; of a bool the second is true, of a number the place in the list counts
//	from:"1"               the first word is number 1
//	also:"auto"            a further word for a time, which is then 0
//	as:"rate"              a form of text: rate, bytes
//	form:"plain"           the pattern of a text, one of Schema.Forms
//	true:"decimal"         the word that true stands for; false is the first
//
// What holds between fields is checked by functions of a [Schema], by type. Package conf knows no field.
package conf
