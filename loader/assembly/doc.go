// Package assembly gives the rows of steps the content of their documents, from a cache bounded in bytes or from the
// streams.
package assembly
