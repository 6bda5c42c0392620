// Sentinel limits the hot values of a parameter, in one process.
package main

import (
	"log"
	"net/http"

	sentinel "github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/hotspot"
)

func main() {
	if err := sentinel.InitDefault(); err != nil {
		log.Fatal(err)
	}
	if _, err := hotspot.LoadRules([]*hotspot.Rule{{Resource: "topic", MetricType: hotspot.QPS,
		ControlBehavior: hotspot.Reject, Threshold: 100, DurationInSec: 1}}); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, blocked := sentinel.Entry("topic", sentinel.WithArgs(r.URL.Query().Get("id")))
		if blocked != nil {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		defer e.Exit()
		http.NotFound(w, r)
	})))
}
