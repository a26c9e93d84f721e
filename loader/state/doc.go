// Package state declares the state that the leader of a run, its followers and its daemons exchange: the demand of
// readers in one direction, the report of the leader in the other.
package state
