// Package cluster connects the daemons of a run: it elects the one that leads, exchanges heartbeats and forwards
// commands.
package cluster
