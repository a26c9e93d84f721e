// Package stream is the daemon's edge to NATS JetStream: an embedded server or a remote one, the streams and their settings, the
// document reader with its tokenizer workers, the plan log, and the publisher.
package stream

import "time"

// Config says where the streams are. Nothing of it shapes the plan.
type Config struct {
	// URL of NATS servers, comma separated (nats:// or tls://). Empty runs a server inside the daemon.
	URL string `koanf:"url"`
	// Dir is the data folder of the embedded server.
	Dir string `koanf:"dir"`
	// Listen is the address where the embedded server takes NATS clients. Loopback by default; port 0 takes a free one.
	Listen string `koanf:"listen"`
	// Credentials is a NATS credentials file; NKey an NKey seed file.
	Credentials string    `koanf:"credentials"`
	NKey        string    `koanf:"nkey"`
	TLS         TLSConfig `koanf:"tls"`
	// Name is the document stream; its subjects are Subject and everything below it (docs -> docs.>).
	Name    string `koanf:"name"`
	Subject string `koanf:"subject"`
	// MaxBytes bounds the document stream; a full stream makes producers wait.
	MaxBytes int64 `koanf:"max_bytes"`
	// DeadLetters and Plans bound the dead-letter stream and each run's plan stream, in bytes.
	DeadLetterBytes int64 `koanf:"dead_letter_bytes"`
	PlanBytes       int64 `koanf:"plan_bytes"`
	// Replicas of streams that are created on a remote cluster.
	Replicas int `koanf:"replicas"`
	// MaxDocument bounds one message of the document stream in bytes (embedded server).
	MaxDocument int `koanf:"max_document"`
	// Workers tokenize in parallel; 0 takes one a core.
	Workers int `koanf:"workers"`
	// BufferBytes bounds documents that are fetched but not yet planned.
	BufferBytes int64 `koanf:"buffer_bytes"`
	// ReconnectWait is the longest pause between attempts to reconnect.
	ReconnectWait time.Duration `koanf:"reconnect_wait"`
}

// TLSConfig are files for TLS to remote servers.
type TLSConfig struct {
	CA   string `koanf:"ca"`
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
}
