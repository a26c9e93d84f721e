// Package assembly adds the content of documents to the rows of steps, from a cache bounded in bytes or from the
// streams.
package assembly
