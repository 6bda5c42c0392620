package doctor

import (
	"fmt"

	"github.com/hotparam/pipeline/internal/operator/udpstat"
)

// UDP judges the receive buffers of UDP.
func UDP(in udpstat.Inspection) []Finding {
	l := &list{where: "this machine's kernel"}
	fix := fmt.Sprintf(
		"sysctl -w net.core.rmem_max=%d   # and in /etc/sysctl.d/60-hotparam.conf: net.core.rmem_max = %d", in.Asked,
		in.Asked)
	switch {
	case in.Granted < 0:
		l.unknown("the UDP receive buffer", in.Err)
	case in.Granted < in.Asked:
		l.add(Warn,
			Finding{What: fmt.Sprintf("a StatsD listener asks for a receive buffer of %s and is granted %s",
				bytes(in.Asked), bytes(in.Granted)),
				Where: fmt.Sprintf("net.core.rmem_max = %d", in.MaxBuffer),
				Why:   "while the process waits for a processor the buffer fills, and the kernel throws counts away without a word",
				Fix:   fix})
	default:
		l.ok("UDP sockets are granted the receive buffer of %s that they ask for", bytes(in.Granted))
	}
	lost, before := in.After.RcvbufErrors-in.Before.RcvbufErrors, in.After.RcvbufErrors
	switch {
	case in.Granted >= 0 && in.Err != "":
		l.unknown("the count of lost datagrams", in.Err)
	case lost > 0:
		l.add(Fail,
			Finding{
				What: fmt.Sprintf("%d UDP datagrams were thrown away in the last %v because a receive buffer was full",
					lost, in.Between),
				Where: "/proc/net/snmp, Udp RcvbufErrors",
				Why:   "counts are being lost right now: keys look colder than they are",
				Fix:   fix + "; then give the listener more processor time"})
	case before > 0:
		l.add(Warn,
			Finding{
				What: fmt.Sprintf("%d UDP datagrams were thrown away since the machine started, none in the last %v",
					before, in.Between),
				Where: "/proc/net/snmp, Udp RcvbufErrors",
				Why:   "bursts do not fit into the receive buffer of some program on this machine",
				Fix:   fix})
	case in.Err == "":
		l.ok("no UDP datagram was thrown away since the machine started")
	}
	if grown := in.After.InErrors - in.Before.InErrors - lost; grown > 0 {
		l.add(Warn, Finding{What: fmt.Sprintf("%d UDP datagrams came with errors in the last %v", grown, in.Between),
			Where: "/proc/net/snmp, Udp InErrors", Why: "their counts are lost",
			Fix: "nstat -az 'Udp*'   # tells which errors; then look at the network"})
	}
	return l.findings
}
