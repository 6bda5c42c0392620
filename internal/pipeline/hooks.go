package pipeline

import (
	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/serving/httplimit"
)

// These hooks connect packages of this module that users import beside hotparam with the parts of a hotparam.Pipeline,
// so that no exported signature has an internal type. Packages hotparam and shared set them in init.
var (
	// ReadStats returns functions that read the statistics of each part of a *hotparam.Pipeline.
	ReadStats func(p any) []func() any
	// Extend returns the parts of a *hotparam.Pipeline, and an error if the pipeline runs or has run.
	Extend func(p any) (*Connected, error)
	// HTTPGate returns the gate of a *hotparam.Pipeline for requests of net/http, and the part that finds their
	// clients.
	HTTPGate func(p any) (*httplimit.HTTPGate, *httplimit.Clients)
	// NewDecision returns a *hotparam.Decision whose denial answers writes.
	NewDecision func(v *hottype.Verdict, tracker *httplimit.RequestTracker, answers *httplimit.Responder) any
	// ConnectShared connects the parts with other processes according to a shared.Config. It is nil if package shared
	// is not linked.
	ConnectShared func(config any, parts Config) (*Connected, error)
)
