// Package jobspans keeps which steps the readers of jobs were handed, and for how long jobs without readers retain
// documents.
package jobspans
