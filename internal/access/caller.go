package access

import "crypto/x509"

// Caller is who asks for something over HTTP, as far as a request tells; a Gate finds out who that is.
type Caller struct {
	Authorization []string          // headers of that name
	Address       string            // host:port that the request came from
	Certificate   *x509.Certificate // of the client, where one was verified
}
