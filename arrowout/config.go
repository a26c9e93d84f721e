// Package arrowout serves a run to readers: an Arrow Flight server that turns the steps of a run into record batches.
//
// It is independent of planning. It requests steps from a Run and lays their tokens out as Arrow columns without
// copying the ids. It sends them on one long stream per rank. docs/reference/wire.md specifies the format and
// docs/reference/errors.md lists the error reasons.
package arrowout

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"loaderd/internal/auth"
	"loaderd/loader/runconfig"
)

// Config configures the Flight server. No field affects the plan.
type Config struct {
	// Listen is the address of the Flight server. The default is loopback; port 0 selects a free port.
	Listen string `koanf:"listen"`
	// Advertise is the host:port at which readers on other machines reach this daemon. If empty, it is Listen, with the
	// host's name in place of a wildcard.
	Advertise string `koanf:"advertise"`
	// TokenFile holds one bearer token that grants all permissions.
	TokenFile string `koanf:"token_file"`
	// OwnToken is the token in the daemon's data folder. It is required if RequiresOwnToken returns true; nil for none.
	OwnToken *auth.StoredToken `koanf:"-"`
	// Identities is a file of the permitted identities, each with a role.
	Identities string `koanf:"identities"`
	// Cert and Key are PEM files for TLS; with ClientCA the server requires client certificates.
	Cert     string `koanf:"cert"`
	Key      string `koanf:"key"`
	ClientCA string `koanf:"client_ca"`
	// Insecure disables the token requirement if no other authentication is configured. It also permits listening beyond
	// loopback without a token or without TLS.
	Insecure bool `koanf:"insecure"`
	// BatchBytes is the size above which a rank's part of a step is sent as several record batches.
	BatchBytes int `koanf:"batch_bytes"`
	// MaxConnections bounds all connections, MaxConnectionsPerHost the connections of one host.
	MaxConnections        int `koanf:"max_connections"`
	MaxConnectionsPerHost int `koanf:"max_connections_per_host"`
	// MaxStreams bounds all open DoGet streams, MaxStreamsPerIdentity the streams of one identity.
	MaxStreams            int `koanf:"max_streams"`
	MaxStreamsPerIdentity int `koanf:"max_streams_per_identity"`
	// MaxCommittingJobsPerIdentity bounds the committing jobs of an identity that may commit only for its own jobs.
	MaxCommittingJobsPerIdentity int `koanf:"max_committing_jobs_per_identity"`
	// TrainMayMix permits identities with the role train to change the mixture of sources.
	TrainMayMix bool `koanf:"train_may_mix"`
	// SendBytes bounds the bytes of record batches that are assembled or not yet taken by clients, over all streams.
	SendBytes int `koanf:"send_bytes"`
	// SlowReaderTimeout is how long a reader may take nothing while data is available. Then its stream ends, and after
	// that its connection.
	SlowReaderTimeout time.Duration `koanf:"slow_reader_timeout"`
	// Keepalive is the interval between pings on idle connections.
	Keepalive time.Duration `koanf:"keepalive"`
}

// Bounds of Config. A message must stay below 4 MiB, headers included, the default limit of Go, Java, C++ and Rust
// clients.
const (
	minBatchBytes = 64 << 10
	maxBatchBytes = 4<<20 - 64<<10
	minKeepalive  = time.Second
	maxKeepalive  = time.Hour
	minSlowReader = 100 * time.Millisecond
	maxSlowReader = 24 * time.Hour
	minSendBytes  = 16 << 20
)

// Default returns the configuration of a server on loopback without TLS and token.
func Default() Config {
	return Config{Listen: "127.0.0.1:8815", BatchBytes: 2 << 20, Keepalive: 30 * time.Second,
		MaxConnections: 4096, MaxConnectionsPerHost: 1024, MaxStreams: 16384, MaxStreamsPerIdentity: 4096,
		MaxCommittingJobsPerIdentity: 16,
		SendBytes:                    1 << 30, SlowReaderTimeout: 5 * time.Minute}
}

// Anonymous reports whether no authentication of callers is configured.
func (c Config) Anonymous() bool {
	return c.TokenFile == "" && c.Identities == "" && c.ClientCA == ""
}

// RequiresOwnToken reports whether callers must present the token of the daemon's data folder.
func (c Config) RequiresOwnToken() bool { return c.Anonymous() && !c.Insecure }

// FieldError is an invalid field of a Config.
type FieldError = runconfig.FieldError

// Validate returns an error for every invalid field. It does not read files.
func (c Config) Validate() []FieldError {
	var bad []FieldError
	add := func(field string, value any, want string) {
		bad = append(bad, FieldError{Field: field, Value: value, Want: want})
	}
	c.checkAddresses(add)
	if (c.Cert == "") != (c.Key == "") {
		add("cert", c.Cert, "cert and key together, or neither")
	}
	if c.ClientCA != "" && c.Cert == "" {
		add("client_ca", c.ClientCA, "cert and key as well: client certificates need TLS")
	}
	if c.BatchBytes < minBatchBytes || c.BatchBytes > maxBatchBytes {
		add("batch_bytes", c.BatchBytes, fmt.Sprintf("%d to %d bytes (messages stay under 4 MiB)", minBatchBytes,
			maxBatchBytes))
	}
	if c.Keepalive < minKeepalive || c.Keepalive > maxKeepalive {
		add("keepalive", c.Keepalive, fmt.Sprintf("%v to %v", minKeepalive, maxKeepalive))
	}
	if c.SendBytes < minSendBytes {
		add("send_bytes", c.SendBytes, fmt.Sprintf("at least %d bytes, a few batches", minSendBytes))
	}
	if c.SlowReaderTimeout < minSlowReader || c.SlowReaderTimeout > maxSlowReader {
		add("slow_reader_timeout", c.SlowReaderTimeout, fmt.Sprintf("%v to %v", minSlowReader, maxSlowReader))
	}
	for _, x := range []struct {
		field string
		n     int
	}{{"max_connections", c.MaxConnections}, {"max_connections_per_host", c.MaxConnectionsPerHost},
		{"max_streams", c.MaxStreams}, {"max_streams_per_identity", c.MaxStreamsPerIdentity},
		{"max_committing_jobs_per_identity", c.MaxCommittingJobsPerIdentity}} {
		if x.n < 1 || x.n > 1<<20 {
			add(x.field, x.n, "1 to 2^20")
		}
	}
	return bad
}

// checkAddresses reports errors in the addresses that the server listens on and advertises.
func (c Config) checkAddresses(add func(field string, value any, want string)) {
	if _, port, err := net.SplitHostPort(c.Listen); err != nil {
		add("listen", c.Listen, "host:port, such as 127.0.0.1:8815")
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		add("listen", c.Listen, "a port of 0 (selects a free one) to 65535")
	}
	if !c.Insecure && auth.IsExposed(c.Listen) {
		switch {
		case c.Anonymous():
			add("listen", c.Listen, "a loopback address, because any caller would have full access: configure authentication "+
				"(flight.identities, flight.cert, flight.key), or set flight.insecure: true")
		case c.Cert == "":
			add("listen", c.Listen, "a loopback address, because tokens would be sent unencrypted: serve with TLS "+
				"(flight.cert, flight.key), or set flight.insecure: true")
		}
	}
	if _, _, err := net.SplitHostPort(c.Advertise); c.Advertise != "" && err != nil {
		add("advertise", c.Advertise, "host:port at which readers reach this daemon, or empty")
	}
}
