package replay

// maxSteps is the length of a timeline at which its step doubles.
const maxSteps = 2048

// Timeline is the course of a log in at most maxSteps steps of equal length.
type Timeline struct {
	// From is the unix second at which the first step begins.
	From int64 `json:"from"`
	// Step is the length of a step in seconds, a power of two.
	Step int64 `json:"step"`
	// Requests and Denied are the totals of each step.
	Requests []int64 `json:"requests"`
	Denied   []int64 `json:"denied"`
	// Peak is the requests in the busiest second of each step.
	Peak []int64 `json:"peak_1s"`
}

// add records one second. Seconds come in order.
func (t *Timeline) add(second, requests, denied int64) {
	if t.Step == 0 {
		t.From, t.Step = second, 1
	}
	i := (second - t.From) / t.Step
	for ; i >= maxSteps; i /= 2 {
		t.halve()
	}
	for int64(len(t.Requests)) <= i {
		t.Requests, t.Denied, t.Peak = append(t.Requests, 0), append(t.Denied, 0), append(t.Peak, 0)
	}
	t.Requests[i] += requests
	t.Denied[i] += denied
	t.Peak[i] = max(t.Peak[i], requests)
}

// halve merges every two steps into one.
func (t *Timeline) halve() {
	half := (len(t.Requests) + 1) / 2
	for i := range half {
		requests, denied, peak := t.Requests[2*i], t.Denied[2*i], t.Peak[2*i]
		if j := 2*i + 1; j < len(t.Requests) {
			requests, denied, peak = requests+t.Requests[j], denied+t.Denied[j], max(peak, t.Peak[j])
		}
		t.Requests[i], t.Denied[i], t.Peak[i] = requests, denied, peak
	}
	t.Requests, t.Denied, t.Peak = t.Requests[:half], t.Denied[:half], t.Peak[:half]
	t.Step *= 2
}
