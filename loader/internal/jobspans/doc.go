// Package jobspans tracks which steps the readers of jobs were sent, and for how long jobs without readers retain
// documents.
package jobspans
