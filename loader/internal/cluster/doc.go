// Package cluster connects the daemons of a run. It elects the leader, exchanges heartbeats and forwards commands.
package cluster
