// Package diagnosis finds out why a step has not come, and describes in a sentence how a run does.
package diagnosis
