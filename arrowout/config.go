// Package arrowout is the daemon's edge to readers: an Arrow Flight server that turns the steps of a run into record
// batches.
//
// It knows nothing of planning. It asks a Run for steps, lays their tokens out as Arrow columns without copying the
// ids, and sends them on one long stream per rank. docs/wire.md is the format and docs/errors.md the table of causes.
package arrowout

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"loaderd/internal/auth"
	"loaderd/loader/runconfig"
)

// Config shapes the Flight server. Nothing of it shapes the plan.
type Config struct {
	// Listen is the address of the Flight server. Loopback by default; port 0 takes a free one.
	Listen string `koanf:"listen"`
	// Advertise is the host:port at which readers on other machines find this daemon; empty stands for listen, with the
	// host's name for a wildcard.
	Advertise string `koanf:"advertise"`
	// TokenFile holds one bearer token, with which everything is permitted.
	TokenFile string `koanf:"token_file"`
	// OwnToken is the token of the daemon's data folder, which is asked for where AsksOwnToken is true; nil for none.
	OwnToken *auth.KeptToken `koanf:"-"`
	// Identities is a file of those who are let in, each with a role.
	Identities string `koanf:"identities"`
	// Cert and Key are PEM files for TLS; ClientCA asks clients for certificates.
	Cert     string `koanf:"cert"`
	Key      string `koanf:"key"`
	ClientCA string `koanf:"client_ca"`
	// Insecure asks for no token where nothing else is configured, and permits to listen beyond loopback without one, or
	// without TLS.
	Insecure bool `koanf:"insecure"`
	// BatchBytes is the size above which a rank's part of a step is sent as several record batches.
	BatchBytes int `koanf:"batch_bytes"`
	// MaxConnections and MaxConnectionsPerHost bound connections, of all and of one host.
	MaxConnections        int `koanf:"max_connections"`
	MaxConnectionsPerHost int `koanf:"max_connections_per_host"`
	// MaxStreams and MaxStreamsOfOne bound open DoGet streams, and those of one identity.
	MaxStreams      int `koanf:"max_streams"`
	MaxStreamsOfOne int `koanf:"max_streams_of_one"`
	// MaxKeepersOfOne bounds the keepers of an identity that may commit for its own alone.
	MaxKeepersOfOne int `koanf:"max_keepers_of_one"`
	// TrainMayMix lets identities of the role train change the mixture of sources.
	TrainMayMix bool `koanf:"train_may_mix"`
	// SendBytes bounds the bytes of record batches that are assembled or that clients have not taken yet, over all
	// streams.
	SendBytes int `koanf:"send_bytes"`
	// SlowReader is how long a reader may take nothing, while there is something for it, before its stream and then its
	// connection is ended.
	SlowReader time.Duration `koanf:"slow_reader"`
	// Keepalive is the interval of pings on idle connections.
	Keepalive time.Duration `koanf:"keepalive"`
}

// Bounds of Config. A message must stay below the 4 MiB that Go, Java, C++ and Rust clients take by default, headers
// included.
const (
	minBatchBytes = 64 << 10
	maxBatchBytes = 4<<20 - 64<<10
	minKeepalive  = time.Second
	maxKeepalive  = time.Hour
	minSlowReader = 100 * time.Millisecond
	maxSlowReader = 24 * time.Hour
	minSendBytes  = 16 << 20
)

// Default is a server on loopback without TLS and token.
func Default() Config {
	return Config{Listen: "127.0.0.1:8815", BatchBytes: 2 << 20, Keepalive: 30 * time.Second,
		MaxConnections: 4096, MaxConnectionsPerHost: 1024, MaxStreams: 16384, MaxStreamsOfOne: 4096, MaxKeepersOfOne: 16,
		SendBytes: 1 << 30, SlowReader: 5 * time.Minute}
}

// Anonymous reports whether nothing is configured by which callers are known.
func (c Config) Anonymous() bool {
	return c.TokenFile == "" && c.Identities == "" && c.ClientCA == ""
}

// AsksOwnToken reports whether callers have to have the token of the daemon's data folder.
func (c Config) AsksOwnToken() bool { return c.Anonymous() && !c.Insecure }

// FieldError is a bad field of a Config.
type FieldError = runconfig.FieldError

// Validate returns every bad field. It does not read files.
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
		add("send_bytes", c.SendBytes, fmt.Sprintf("%d bytes at least, which are a few batches", minSendBytes))
	}
	if c.SlowReader < minSlowReader || c.SlowReader > maxSlowReader {
		add("slow_reader", c.SlowReader, fmt.Sprintf("%v to %v", minSlowReader, maxSlowReader))
	}
	for _, x := range []struct {
		field string
		n     int
	}{{"max_connections", c.MaxConnections}, {"max_connections_per_host", c.MaxConnectionsPerHost},
		{"max_streams", c.MaxStreams}, {"max_streams_of_one", c.MaxStreamsOfOne}, {"max_keepers_of_one", c.MaxKeepersOfOne}} {
		if x.n < 1 || x.n > 1<<20 {
			add(x.field, x.n, "1 to 2^20")
		}
	}
	return bad
}

// checkAddresses adds what is wrong with the addresses that the server listens on and advertises.
func (c Config) checkAddresses(add func(field string, value any, want string)) {
	if _, port, err := net.SplitHostPort(c.Listen); err != nil {
		add("listen", c.Listen, "host:port, such as 127.0.0.1:8815")
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		add("listen", c.Listen, "a port of 0 (any free one) to 65535")
	}
	if !c.Insecure && auth.Exposed(c.Listen) {
		switch {
		case c.Anonymous():
			add("listen", c.Listen, "a loopback address, because whoever reaches it could do everything: say who is let in "+
				"(flight.identities, flight.cert, flight.key), or set flight.insecure: true")
		case c.Cert == "":
			add("listen", c.Listen, "a loopback address, because tokens would travel in the clear: serve with TLS "+
				"(flight.cert, flight.key), or set flight.insecure: true")
		}
	}
	if _, _, err := net.SplitHostPort(c.Advertise); c.Advertise != "" && err != nil {
		add("advertise", c.Advertise, "host:port at which readers find this daemon, or nothing")
	}
}
