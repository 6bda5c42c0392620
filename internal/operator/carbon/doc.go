// Package carbon reads the configuration of Graphite's carbon from its
// directory: what it stores, how finely, and how fast it makes new files. It
// reads carbon.conf, storage-schemas.conf and storage-aggregation.conf, writes
// nothing and opens no connection.
package carbon
