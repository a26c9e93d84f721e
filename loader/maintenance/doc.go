// Package maintenance has operations that no serving daemon performs. It audits, forks, repairs and summarizes plans,
// and finds documents in them.
package maintenance
