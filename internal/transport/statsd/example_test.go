package statsd_test

import (
	"context"
	"fmt"
	"net"

	"github.com/hotparam/pipeline/hotparam/hottype"
	"github.com/hotparam/pipeline/internal/canon"
	"github.com/hotparam/pipeline/internal/transport/statsd"
)

// A sender runs beside the source of its counts, and is ended after it: then it sends the rest at once. Usually package
// tally calls Send.
func ExampleSender() {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	sender, err := statsd.NewSender(statsd.SenderConfig{
		Servers: []string{server.LocalAddr().String()}, // a list: each has its share of the keys
		Names:   canon.Names{Prefix: "hp.news"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sender.Run(ctx) }()

	if err := sender.Send(ctx, []hottype.Count{{Key: "topic?id=42", N: 300}, {Key: "topic?id=7", N: 2}}); err != nil {
		fmt.Println(err)
	}
	stop()
	fmt.Println("ended:", <-ended)

	packet := make([]byte, 1500)
	n, _, err := server.ReadFrom(packet)
	fmt.Printf("%s\n%v, %d sent\n", packet[:n], err, sender.Stats().Sent)
	// Output:
	// ended: <nil>
	// hp.news.topic.hot_param.id=42:300|c
	// hp.news.topic.hot_param.id=7:2|c
	// <nil>, 302 sent
}
