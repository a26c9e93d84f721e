// Package diagnosis determines why a step is not planned yet, and describes the state of a run in one sentence.
package diagnosis
