// Package action carries out what clients ask of a run beside its steps: commits, seals, changes of the mixture, and
// questions about steps, documents and figures.
package action
