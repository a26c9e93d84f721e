// Package batch makes Arrow record batches of assembled rows: it builds the columns that a ticket asks for, cuts a step
// into parts, counts the metadata, and encodes all of it as Flight messages that gRPC sends without copying them.
package batch
