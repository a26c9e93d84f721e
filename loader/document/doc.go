// Package document holds what a run knows of documents and of the streams that bring them.
package document
