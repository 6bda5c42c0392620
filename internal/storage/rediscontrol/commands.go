package rediscontrol

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/report"
)

const (
	// maxCommands is the number of commands that are kept for processes that missed a notice.
	maxCommands = 1000
	// maxCommand is the maximum length of a command, in bytes.
	maxCommand = 16 << 10
)

// errCommand is the error of a command that no process would understand.
var errCommand = errors.New("rediscontrol: malformed command")

// SendCommand sends a command to every process that follows commands. It takes one round trip.
func (f *Feed) SendCommand(ctx context.Context, c report.Command) error {
	text := formatCommand(c)
	if back, err := parseCommand(text); err != nil || back != c {
		return fmt.Errorf("%w: %.100q", errCommand, text)
	}
	return wrapError("send a command", writeCommand.Run(ctx, f.rdb, []string{f.keys.Commands()},
		f.keys.CommandNotice(), text, commandLife.Milliseconds(), maxCommands).Err())
}

// FollowCommands calls fn with each command that is sent from now on, in order, from one goroutine. It returns nil when
// ctx ends and never before. A process misses a command if Redis does not answer it for a minute.
func (f *Feed) FollowCommands(ctx context.Context, fn func(report.Command)) error {
	h := &commandFollower{feed: f, fn: fn}
	return f.followChannel(ctx, "commands", f.keys.CommandNotice(), &f.commands, h.sync)
}

type commandFollower struct {
	feed *Feed
	fn   func(report.Command)
	last string // version of the last command seen, or "" before the first poll
}

func (h *commandFollower) sync(ctx context.Context) (changed bool, err error) {
	since := "-inf"
	if h.last != "" {
		since = "(" + h.last
	}
	list, err := h.feed.rdb.ZRangeByScoreWithScores(ctx, h.feed.keys.Commands(),
		&redis.ZRangeBy{Min: since, Max: "+inf"}).Result()
	if err != nil {
		return false, fmt.Errorf("rediscontrol: read %s: %w", h.feed.keys.Commands(), err)
	}
	began := h.last != ""
	if !began {
		h.last = "0" // earlier commands are not for this process
	}
	for _, z := range list {
		h.last = strconv.FormatFloat(z.Score, 'f', 0, 64)
		if !began {
			continue
		}
		text, _ := z.Member.(string)
		c, err := parseCommand(text)
		if err != nil {
			h.feed.commands.add(func(s *FollowStats) { s.Malformed++ })
			h.feed.log.Debug("rediscontrol: command cannot be read", "command", text, "err", err)
			continue
		}
		h.fn(c)
		changed = true
	}
	return changed, nil
}

// formatCommand writes a command: the action, the kind of its target, and the target's name, which may hold any bytes.
//
//	reset key topic?id=42
//	reset addr 192.0.2.7
//	reset client anna
func formatCommand(c report.Command) string {
	kind, name := "key", string(c.Key)
	switch {
	case c.Client.Addr.IsValid():
		kind, name = "addr", c.Client.Addr.String()
	case c.Client.Name != "":
		kind, name = "client", c.Client.Name
	}
	return string(c.Action) + " " + kind + " " + name
}

func parseCommand(text string) (c report.Command, err error) {
	action, rest, _ := strings.Cut(text, " ")
	kind, name, _ := strings.Cut(rest, " ")
	c.Action = report.CommandAction(action)
	switch {
	case name == "" || len(text) > maxCommand:
		return c, errCommand
	case c.Action != report.CommandReset && c.Action != report.CommandPurge && c.Action != report.CommandTrace:
		return c, fmt.Errorf("%w: action %.20q", errCommand, action)
	}
	switch kind {
	case "key":
		c.Key = hottype.Key(name)
	case "client":
		c.Client.Name = name
	case "addr":
		if c.Client.Addr, err = netip.ParseAddr(name); err != nil {
			return c, fmt.Errorf("%w: %w", errCommand, err)
		}
	default:
		return c, fmt.Errorf("%w: kind %.20q", errCommand, kind)
	}
	return c, nil
}
