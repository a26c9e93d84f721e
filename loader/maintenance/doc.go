// Package maintenance does what no daemon of a run does while it serves: it audits, forks, repairs and summarizes
// plans, and finds documents in them.
package maintenance
