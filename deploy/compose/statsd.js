// StatsD of the compose example's Graphite image. What the lines prevent is in
// deploy/graphite/README.md; beside a StatsD of your own take deploy/graphite/statsd.config.js.
{
  graphiteHost: "127.0.0.1",
  graphitePort: 2003,
  address: "0.0.0.0",
  port: 8125,
  mgmt_address: "0.0.0.0",
  mgmt_port: 8126,
  flushInterval: 1000,
  deleteIdleStats: true,
  percentThreshold: [],
  graphite: {legacyNamespace: true}
}
