// Package document declares documents and the streams that deliver them.
package document
