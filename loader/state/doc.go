// Package state holds what the leader of a run, its followers and its daemons tell each other: the demand of readers in
// one direction, the report of the leader in the other.
package state
