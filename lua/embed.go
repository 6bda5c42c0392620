// Package lua carries the scripts that run inside Redis, as text. Each is a
// .lua file whose header says its keys, its arguments, what it returns and what
// it costs. Packages rediscontrol and redislimits are the callers.
//
// A script is joined from parts, so that nothing is written twice: prelude.lua, for
// limits also what limit_prelude.lua describes, and the file with its name. Only
// cl_throttle.lua is used as it is.
//
// Scripts take the time from Redis, give every key an expiry, pass whole
// numbers in and out, and use nothing that Redis 6, Valkey or miniredis lacks.
package lua

import (
	"embed"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Decide is the script that judges the charges of one request, all or nothing.
func Decide() string { return limits("decide", "limit_decide") }

// DecideMany is the script that judges many requests in one call.
func DecideMany() string { return limits("many", "limit_many") }

// Refund is the script that refunds charges.
func Refund() string { return limits("refund", "limit_refund") }

// CLThrottle is the script that replaces CL.THROTTLE of redis-cell.
func CLThrottle() string { return part("cl_throttle", "") }

// InFlight is the script that bounds how many calls run at the same time.
func InFlight() string { return part("prelude", "") + part("in_flight", "") }

// Exchange is the script that exchanges the sums of windows.
func Exchange() string { return part("prelude", "") + part("limit_exchange", "") }

// ClaimHot and the functions below are the scripts of the control plane, each as its file says.
func ClaimHot() string         { return control("claim_hot") }
func PublishHot() string       { return control("publish_hot") }
func PublishBounds() string    { return control("publish_bounds") }
func RestoreOverrides() string { return control("restore_overrides") }
func WriteCommand() string     { return control("write_command") }
func WriteOverride() string    { return control("write_override") }
func WriteReport() string      { return control("write_report") }
func WriteRules() string       { return control("write_rules") }

func control(name string) string {
	return part("prelude", "") + part("prelude", "control") + part(name, "")
}

// part is the text of a file that is marked with a word, by a line "--> " with words
// before it; "" gives what is before the first such line.
func part(file, word string) string {
	text, err := files.ReadFile(file + ".lua")
	if err != nil {
		panic(err) // it is embedded
	}
	var b strings.Builder
	marked := []string{""}
	for line := range strings.Lines(string(text)) {
		if words, ok := strings.CutPrefix(strings.TrimSpace(line), "--> "); ok {
			marked = strings.Fields(words)
		} else if slices.Contains(marked, word) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// kinds are the files that judge a kind of state. That of the token bucket is the first:
// limit_many.lua puts its shortest way behind it.
func kinds() []string {
	const bucket = "limit_token_bucket"
	names := []string{bucket}
	all, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range all {
		name, _ := strings.CutSuffix(f.Name(), ".lua")
		if name != bucket && definition.MatchString(part(name, "decide")) && part(name, "adopt") != "" {
			names = append(names, name)
		}
	}
	return names
}

// limits joins the parts of a script that judges limits, of which last is the end.
func limits(script, last string) string {
	text, adopts := part("prelude", "")+part("limit_prelude", ""), ""
	for i, kind := range kinds() {
		text += part(kind, script)
		adopts += part(kind, "adopt")
		if i == 0 {
			text += part(last, "bucket")
		}
	}
	text += part("limit_state", "") + adopts + part("limit_state", "adopts") + part(last, "")
	if rest := part(last, "read"); rest != "" {
		text += part("limit_state", "read") + rest
	}
	return chains(text + part(last, script))
}

var (
	definition = regexp.MustCompile(`(?m)^local function ([a-z])_(judge|taken|adopt|refund)\(`)
	choice     = regexp.MustCompile(`(judge|taken|adopt|refund)_of\((\w+)\)`)
)

// chains writes out what chooses a function of a kind, such as judge_of(kind), as
// comparisons: a table of functions would be built in every run.
func chains(text string) string {
	defined := definition.FindAllStringSubmatch(text, -1)
	return choice.ReplaceAllStringFunc(text, func(found string) string {
		use, terms := choice.FindStringSubmatch(found), []string{}
		for _, d := range defined {
			if d[2] == use[1] {
				terms = append(terms, use[2]+" == '"+d[1]+"' and "+d[1]+"_"+d[2])
			}
		}
		return "(" + strings.Join(terms, " or ") + ")"
	})
}
