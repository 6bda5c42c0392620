// StatsD 0.9 before Graphite, for the aggregator's --graphite.url.
// deploy/graphite/README.md explains each line.
{
  graphiteHost: "127.0.0.1",
  graphitePort: 2003,
  address: "127.0.0.1",
  port: 8125,
  mgmt_address: "127.0.0.1",
  mgmt_port: 8126,
  flushInterval: 1000,      // --graphite.flush and storage-schemas.conf say the same
  deleteIdleStats: true,    // by default it sends every name it ever heard, for ever
  percentThreshold: [],     // percentiles are for timers; there are none of ours
  graphite: {
    legacyNamespace: true   // "stats_counts." + name: --graphite.prefix
  }
}
