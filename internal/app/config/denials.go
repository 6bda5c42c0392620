package config

// Denials holds the log of denials.
type Denials struct {
	// Log of the denied requests, one line each: stdout, stderr or a file, which is opened again on SIGHUP and when it
	// was moved. Requests that a limit in shadow mode would have denied are in it too. Empty: no log.
	Log string `group:"operate" placeholder:"FILE" help:"Log of the denied requests: stdout, stderr or a file; empty: no log."`
	// Form of the lines of this log: json or logfmt.
	Format string `enum:"json,logfmt" default:"json" help:"Form of the lines of this log: ${enum}."`
	// Maximum number of lines in a second, at least 1; a further line counts the denials that have none. -1: no bound.
	Rate int `default:"100" help:"Maximum number of lines of this log in a second; -1: no bound."`
}
