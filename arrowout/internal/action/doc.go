// Package action carries out the actions of clients: commits, seals, changes of the mixture, and queries of steps,
// documents and figures.
package action
