package sites

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/operator/learn"
	"github.com/hotparam/pipeline/internal/operator/replay"
	"github.com/hotparam/pipeline/internal/rules"
)

// Statement is a sort of claim that a proposal makes.
type Statement string

const (
	Topic     Statement = "topic"     // the parameter of a rule
	Noise     Statement = "noise"     // the parameters that are no part of a key
	Viral     Statement = "viral"     // the values that a person reads in the summary
	Threshold Statement = "threshold" // the values that are hot when the proposal is replayed
	Loops     Statement = "loops"
	Scanners  Statement = "scanners"
	Probes    Statement = "probes"  // the exempt addresses
	Clients   Statement = "clients" // whether the addresses of the log identify clients
	Windows   Statement = "windows" // the windows per client
	Unit      Statement = "unit"    // whether thresholds and texts are about clients or about requests
)

// Statements returns all statements, in the order of the table.
func Statements() []Statement {
	return []Statement{Topic, Noise, Viral, Threshold, Loops, Scanners, Probes, Clients, Windows, Unit}
}

// Count holds the numbers of right claims, of wrong claims, and of facts that are not claimed.
type Count struct {
	Right, Wrong, Missed int
}

// Score holds the counts of statements, and a sentence for each claim that is wrong or missing.
type Score struct {
	Counts map[Statement]Count
	Errors []string
	Page   string // the proposal as a person reads it
}

func (s *Score) right(of Statement) {
	c := s.Counts[of]
	c.Right++
	s.Counts[of] = c
}

func (s *Score) wrong(of Statement, format string, args ...any) {
	c := s.Counts[of]
	c.Wrong++
	s.Counts[of] = c
	s.Errors = append(s.Errors, fmt.Sprintf("%s: wrong: %s", of, fmt.Sprintf(format, args...)))
}

func (s *Score) missed(of Statement, format string, args ...any) {
	c := s.Counts[of]
	c.Missed++
	s.Counts[of] = c
	s.Errors = append(s.Errors, fmt.Sprintf("%s: missed: %s", of, fmt.Sprintf(format, args...)))
}

// list counts the claims of a list. Entries of fine count neither way.
func (s *Score) list(of Statement, claimed, wanted, fine []string) {
	for _, c := range claimed {
		switch {
		case slices.Contains(wanted, c):
			s.right(of)
		case !slices.Contains(fine, c):
			s.wrong(of, "%s", c)
		}
	}
	for _, w := range wanted {
		if !slices.Contains(claimed, w) {
			s.missed(of, "%s", w)
		}
	}
}

// judgment holds a proposal in the forms in which a person and a program read it.
type judgment struct {
	Score
	*Site
	page string
	set  *rules.Set
}

// Judge learns from the log of a site and scores each statement of the proposal.
func Judge(ctx context.Context, s *Site) (*Score, error) {
	p, err := learn.Learn(ctx, learn.Config{}, func() ([]replay.Source, error) {
		return []replay.Source{{Name: "access.log", Reader: bytes.NewReader(s.Log)}}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("sites: %s %d: %w", s.Class, s.Seed, err)
	}
	var page, file bytes.Buffer
	if err := p.Write(&page); err != nil {
		return nil, err
	}
	if err := p.WriteYAML(&file); err != nil {
		return nil, err
	}
	j := &judgment{Site: s, page: page.String()}
	j.Score = Score{Counts: map[Statement]Count{}, Page: j.page + file.String()}
	if j.set, err = rules.Parse("hotparam.yaml", file.Bytes()); err != nil {
		return nil, fmt.Errorf("sites: %s %d: %w", s.Class, s.Seed, err)
	}
	rep, err := replay.Run(ctx, replay.Config{Rules: j.set}, replay.Source{Reader: bytes.NewReader(s.Log)})
	if err != nil {
		return nil, err
	}
	j.judgeRules()
	j.judgeNoise()
	j.judgeValues(rep)
	j.judgeClients()
	j.judgeWindows()
	return &j.Score, nil
}

// keyOf returns the key of a target and the names of the parameters of its rule.
func (j *judgment) keyOf(target string) (key string, rule *rules.Rule) {
	m := j.set.Match(&hottype.Request{Method: "GET", Target: target}, new(rules.Scratch))
	return string(m[0].Key), m[0].Rule
}

func (j *judgment) keysOf(targets ...string) (keys []string) {
	for _, t := range targets {
		key, _ := j.keyOf(t)
		keys = append(keys, key)
	}
	return keys
}

func paramsOf(r *rules.Rule) (names []string) {
	for _, q := range r.Params {
		if strings.HasPrefix(q.Name, "path.") {
			q.Name = "path"
		}
		names = append(names, q.Name)
	}
	return names
}

func (j *judgment) judgeRules() {
	t := &j.Truth
	_, ofTopic := j.keyOf(t.Topic)
	switch names := paramsOf(ofTopic); {
	case t.Param == "":
	case slices.Equal(names, []string{t.Param}), t.Param == "path" && len(t.Viral) == 0 && ofTopic.IsCatchAll():
		j.right(Topic) // the catch-all counts each path, and no value needs a limit
	default:
		j.missed(Topic, "%s", t.Param)
	}
	for _, r := range j.set.Rules {
		names := paramsOf(r)
		fine := slices.Contains(names, "*") || !slices.ContainsFunc(names, func(name string) bool {
			return !slices.Contains(t.Fine, name) && (name != t.Param || len(names) > 1)
		})
		if !fine {
			j.wrong(Topic, "%s by %s", r.Match.Path, names)
		}
	}
}

// judgeNoise compares keys of targets with and without each parameter.
func (j *judgment) judgeNoise() {
	t := &j.Truth
	with := func(target, name, value string) string {
		if strings.Contains(target, "?") {
			return target + "&" + name + "=" + value
		}
		return target + "?" + name + "=" + value
	}
	plain, _ := j.keyOf(t.Topic)
	for _, name := range t.Noise {
		if key, _ := j.keyOf(with(t.Topic, name, "1234")); key == plain {
			j.right(Noise)
		} else {
			j.missed(Noise, "%s is part of the key %s", name, key)
		}
	}
	if path, query, _ := strings.Cut(t.Topic, "?"); t.Param != "" && query != "" {
		if key, _ := j.keyOf(with(path, t.Param, "another-1")); key == plain {
			j.wrong(Noise, "%s is ignored", t.Param)
		}
	}
}

func (j *judgment) judgeValues(rep *replay.Report) {
	t := &j.Truth
	viral, wanted := j.keysOf(t.Viral...), j.keysOf(t.Wanted...)
	popular := j.keysOf(append(t.Popular, "/", strings.SplitN(t.Topic, "?", 2)[0])...)
	var hot []string
	for _, span := range rep.Hot {
		if key := string(span.Key); !slices.Contains(hot, key) {
			hot = append(hot, key)
		}
	}
	j.list(Threshold, hot, viral, wanted)
	var named []string
	for _, line := range strings.Split(j.page, "\n") {
		for _, begin := range []string{"Hot, by many clients: ", "Hot: ", "Wanted most: "} {
			if list, ok := strings.CutPrefix(line, begin); ok {
				for _, key := range strings.Split(strings.TrimSuffix(list, "."), ", ") {
					key, _, _ = strings.Cut(key, " ")
					if key != "and" && !slices.Contains(named, key) {
						named = append(named, key)
					}
				}
			}
		}
	}
	j.list(Viral, named, append(viral, wanted...), popular)
}

// described matches a client in a list of clients.
var described = regexp.MustCompile(`([0-9a-fA-F.:]+) \([0-9,]+ requests?, up to`)

// addressesIn returns the clients that a line of the page describes, which begins with a text.
func (j *judgment) addressesIn(begin string) (all []string) {
	for _, line := range strings.Split(j.page, "\n") {
		if list, ok := strings.CutPrefix(line, begin); ok {
			for _, m := range described.FindAllStringSubmatch(list, -1) {
				all = append(all, m[1])
			}
		}
	}
	return all
}

// decide counts a claim that is either true or false.
func (j *judgment) decide(of Statement, claimed, truth bool, what string) {
	if claimed == truth {
		j.right(of)
		return
	}
	j.wrong(of, "%s: %v", what, claimed)
	j.missed(of, "%s: %v", what, truth)
}

func (j *judgment) judgeClients() {
	t := &j.Truth
	var exempt []string
	for _, network := range j.set.IP.Exempt {
		exempt = append(exempt, network.Addr().String())
	}
	j.list(Loops, j.addressesIn("Busiest loops: "), t.Loops, t.Steady)
	j.list(Scanners, j.addressesIn("Busiest scanners: "), t.Scanners, nil)
	j.list(Probes, exempt, t.Probes, t.Steady)
	j.decide(Clients, strings.Contains(j.page, "Clients are not known"), t.Proxied, "clients are not known")
	counts := slices.ContainsFunc(j.set.Rules, func(r *rules.Rule) bool { return r.Hot.MinClients > 0 })
	j.decide(Unit, counts || strings.Contains(j.page, "by many clients"), !t.Proxied, "clients are counted")
}

// tooWide is the multiple of the need of the busiest ordinary client from which on a window is too wide, beside the
// lowest windows that are ever proposed.
const tooWide = 3

func (j *judgment) judgeWindows() {
	t, proposed, n := &j.Truth, j.set.IP.Fixed != nil && j.set.IP.Sliding != nil, len(j.Truth.Ordinary)
	if n > 150 && n < 260 && !proposed { // learn asks for 200 clients
		return
	}
	if t.Proxied || n <= 150 {
		if proposed {
			j.wrong(Windows, "there are %d ordinary clients", n)
		} else {
			j.right(Windows)
		}
		return
	}
	if !proposed {
		j.missed(Windows, "there are %d ordinary clients", n)
		return
	}
	var need Peaks
	hurt := 0
	second, minute := int(j.set.IP.Fixed.Spec.Limit), int(j.set.IP.Sliding.Spec.Limit)
	for _, p := range t.Ordinary {
		need.Second, need.Minute = max(need.Second, p.Second), max(need.Minute, p.Minute)
		if p.Second > second || p.Minute > minute {
			hurt++
		}
	}
	switch {
	case 1000*hurt > n:
		j.wrong(Windows, "%d of %d ordinary clients are above %d and %d", hurt, n, second, minute)
	case second > max(10, tooWide*need.Second) || minute > max(60, tooWide*need.Minute):
		j.wrong(Windows, "%d and %d are too wide for %+v", second, minute, need)
	default:
		j.right(Windows)
	}
}
