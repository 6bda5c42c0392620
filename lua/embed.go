// Package lua holds the scripts that run inside Redis, as text. Each is a .lua file whose header lists its keys, its
// arguments, its reply and its cost. Packages rediscontrol and redislimits are the callers.
//
// A script is joined from parts, so that no code is written twice: prelude.lua, for limits also the parts that
// limit_prelude.lua describes, for overrides override_audit.lua, and the file with its name. Only cl_throttle.lua is
// used alone.
//
// Scripts take the time from Redis, give every key an expiry, take and return whole numbers, and use only commands that
// Redis 6, Valkey and miniredis have.
package lua

import (
	"embed"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Decide returns the script that judges the charges of one request, all or nothing.
func Decide() string { return limitScript("decide", "limit_decide") }

// DecideMany returns the script that judges many requests in one call.
func DecideMany() string { return limitScript("many", "limit_many") }

// Refund returns the script that refunds charges.
func Refund() string { return limitScript("refund", "limit_refund") }

// CLThrottle returns the script that replaces CL.THROTTLE of redis-cell.
func CLThrottle() string { return markedLines("cl_throttle", "") }

// InFlight returns the script that bounds how many calls run at the same time.
func InFlight() string { return markedLines("prelude", "") + markedLines("in_flight", "") }

// Exchange returns the script that exchanges the sums of windows.
func Exchange() string { return markedLines("prelude", "") + markedLines("limit_exchange", "") }

// ClaimHot and the functions below return the scripts of the control plane, which the headers of their files describe.
func ClaimHot() string         { return controlScript("claim_hot") }
func PublishHot() string       { return controlScript("publish_hot") }
func PublishBounds() string    { return controlScript("publish_bounds") }
func RestoreOverrides() string { return controlScript("override_audit", "restore_overrides") }
func WriteCommand() string     { return controlScript("write_command") }
func WriteOverride() string    { return controlScript("override_audit", "write_override") }
func WriteReport() string      { return controlScript("write_report") }
func WriteRules() string       { return controlScript("write_rules") }

// controlScript joins the prelude and the files of a script.
func controlScript(names ...string) string {
	text := markedLines("prelude", "") + markedLines("prelude", "control")
	for _, name := range names {
		text += markedLines(name, "")
	}
	return text
}

// markedLines returns the lines of a file that are marked with word: the lines after a line "--> " that contains the
// word. For "" it returns the lines before the first such line.
func markedLines(file, word string) string {
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

// kindFiles returns the files that judge a kind of state. The file of the token bucket is the first, because
// limit_many.lua puts its shortest way behind it.
func kindFiles() []string {
	const bucket = "limit_token_bucket"
	names := []string{bucket}
	all, err := files.ReadDir(".")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range all {
		name, _ := strings.CutSuffix(f.Name(), ".lua")
		if name != bucket && definition.MatchString(markedLines(name, "decide")) && markedLines(name, "adopt") != "" {
			names = append(names, name)
		}
	}
	return names
}

// limitScript joins the parts of a script that judges limits, of which last is the end.
func limitScript(script, last string) string {
	text, adopts := markedLines("prelude", "")+markedLines("limit_prelude", ""), ""
	for i, kind := range kindFiles() {
		text += markedLines(kind, script)
		adopts += markedLines(kind, "adopt")
		if i == 0 {
			text += markedLines(last, "bucket")
		}
	}
	text += markedLines("limit_state", "") + adopts + markedLines("limit_state", "adopts") + markedLines(last, "")
	if rest := markedLines(last, "read"); rest != "" {
		text += markedLines("limit_state", "read") + rest
	}
	return expandChoices(text + markedLines(last, script))
}

var (
	definition = regexp.MustCompile(`(?m)^local function ([a-z])_(judge|taken|adopt|refund)\(`)
	choice     = regexp.MustCompile(`(judge|taken|adopt|refund)_of\((\w+)\)`)
)

// expandChoices replaces each choice of a function of a kind, such as judge_of(kind), by comparisons, because a table
// of functions would be built in every run.
func expandChoices(text string) string {
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
