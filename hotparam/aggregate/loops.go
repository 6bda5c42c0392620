package aggregate

import "github.com/hotparam/pipeline/hotparam/detect"

// maxLogged is how many loops of one tick are logged one by one.
const maxLogged = 10

// logLoops says which keys became loops: who looks for the reason of their load
// finds a client, and why its key is not limited.
func (a *Aggregator) logLoops(changes []detect.Change) {
	logged, more := 0, 0
	for i := range changes {
		h := &changes[i].Hot
		switch {
		case changes[i].Kind == detect.Ceased && logged < maxLogged:
			a.cfg.Log.Info("aggregate: the loop has ended", "key", h.Key)
		case changes[i].Kind == detect.Looped && logged < maxLogged:
			a.cfg.Log.Info("aggregate: a loop: one or a few clients take the key over its threshold; it is not limited, its clients are by their own limits",
				"key", h.Key, "rule", h.Rule, "rate", h.Rate, "clients", h.Clients, "client", h.Client, "client_share", h.ClientShare)
		case changes[i].Kind == detect.Looped:
			more++
			continue
		default:
			continue
		}
		logged++
	}
	if more > 0 {
		a.cfg.Log.Info("aggregate: further loops", "keys", more)
	}
}
