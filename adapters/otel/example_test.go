package hotparamotel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	hotparamotel "github.com/hotparam/pipeline/adapters/otel"
	"github.com/hotparam/pipeline/hotparam"
)

// A service has a provider with an exporter of its choice; here a manual reader takes the place of the exporter.
func Example() {
	rules, err := hotparam.ParseRules("rules.yaml", []byte(`
rules:
  - {name: topic, match: {path: /topic}, params: [id], hot: {rate: 200}, limit: {rate: 100}}
`))
	if err != nil {
		log.Fatal(err)
	}
	p, err := hotparam.New(hotparam.Config{Rules: rules}) // also run p.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	registration, err := hotparamotel.Register(provider.Meter("news"), p.Stats)
	if err != nil {
		log.Fatal(err)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &data); err != nil {
		log.Fatal(err)
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "hotparam.denied" {
			fmt.Println(m.Name, m.Unit, m.Description)
		}
	}
	if err := registration.Unregister(); err != nil {
		log.Fatal(err)
	}
	// Output: hotparam.denied {request} Requests denied, by reason.
}
