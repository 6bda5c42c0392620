package admin

import (
	"time"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/detection/detect"
)

// loopView is a loop as the API shows it: a key that would be hot were it not
// for one or a few clients. Nothing limits it but what limits those clients.
type loopView struct {
	hottype.Hot
	Href string `json:"href"` // asks /v1/keys about it
}

// loops are the loops of now, none where the program knows of none.
func (s *Server) loops() []hottype.Hot {
	if s.cfg.Loops == nil {
		return nil
	}
	return s.cfg.Loops()
}

func viewLoops(loops []hottype.Hot) []loopView {
	views := make([]loopView, len(loops))
	for i, h := range loops {
		views[i] = loopView{Hot: h, Href: keyHref(h.Key)}
	}
	return views
}

// detectionKind is a change of what is hot as the feed calls it.
func detectionKind(k detect.Kind) string {
	switch k {
	case detect.Cooled:
		return cooled
	case detect.Looped:
		return becameLoop
	case detect.Ceased:
		return ceasedLoop
	}
	return becameHot
}

// detectionChange is a change of what is hot as the feed shows it.
func detectionChange(at time.Time, kind string, h *hottype.Hot) Change {
	return Change{
		At: at, Kind: kind, Key: string(h.Key), Rule: h.Rule, Rate: h.Rate,
		Clients: h.Clients, Client: h.Client, ClientShare: h.ClientShare,
	}
}

// noteList finds what entered or left a list since the last sample, and gives
// what is known then. The caller holds mu.
func (s *Server) noteList(now time.Time, list []hottype.Hot, known map[string]hotNote, came,
	left string) map[string]hotNote {
	current := make(map[string]hotNote, len(list))
	for i := range list {
		h := &list[i]
		current[string(h.Key)] = hotNote{rule: h.Rule, rate: h.Rate}
		if _, was := known[string(h.Key)]; !was {
			s.emit(detectionChange(h.Since, came, h))
		}
	}
	for key, was := range known {
		if _, still := current[key]; !still {
			s.emit(Change{At: now, Kind: left, Key: key, Rule: was.rule, Rate: was.rate})
		}
	}
	return current
}
