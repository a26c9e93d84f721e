// Package arrowout is the daemon's edge to readers: an Arrow Flight server that turns the steps of a run into record batches.
package arrowout

import "time"

// Config shapes the Flight server. Nothing of it shapes the plan.
type Config struct {
	// Listen is the address of the Flight server. Loopback by default; port 0 takes a free one.
	Listen string `koanf:"listen"`
	// TokenFile holds the bearer token that clients must send; empty asks for none.
	TokenFile string `koanf:"token_file"`
	// Cert and Key are PEM files for TLS; ClientCA asks clients for certificates.
	Cert     string `koanf:"cert"`
	Key      string `koanf:"key"`
	ClientCA string `koanf:"client_ca"`
	// BatchBytes is the size above which a rank's part of a step is sent as several record batches.
	BatchBytes int `koanf:"batch_bytes"`
	// Keepalive is the interval of pings on idle connections.
	Keepalive time.Duration `koanf:"keepalive"`
}
