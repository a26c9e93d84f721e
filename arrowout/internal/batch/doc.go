// Package batch encodes assembled rows as Arrow record batches. It builds the columns of a ticket, splits a step into
// parts and computes the metadata. It encodes them as Flight messages, which gRPC sends without copying.
package batch
