// Package follower serves the steps of a run to readers.
package follower
