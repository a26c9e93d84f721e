// Package stream is the daemon's store on NATS JetStream: its configuration, a connection and, embedded, the server behind it, the streams
// and buckets with their settings, and the form in which a document travels. What is done with the streams is below: doclog reads
// documents, deadletter keeps those that cannot be read, planlog keeps a run's plan, publish adds documents.
package stream

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"loaderd/loader/plan"
	"loaderd/stream/conn"
)

// Config says where the streams are. Nothing of it shapes the plan.
type Config struct {
	// URL of NATS servers, comma separated (nats:// or tls://). Empty runs a server inside the daemon.
	URL string `koanf:"url"`
	// Dir is the data folder of the embedded server.
	Dir string `koanf:"dir"`
	// Listen is the address where the embedded server takes NATS clients. Loopback by default; port 0 takes a free one.
	Listen string `koanf:"listen"`
	// Credentials is a NATS credentials file; NKey an NKey seed file.
	Credentials string   `koanf:"credentials"`
	NKey        string   `koanf:"nkey"`
	TLS         conn.TLS `koanf:"tls"`
	// Name is the document stream; its subjects are everything below Subject (docs -> docs.>).
	Name    string `koanf:"name"`
	Subject string `koanf:"subject"`
	// MaxBytes bounds the document stream; a full stream makes producers wait.
	MaxBytes int64 `koanf:"max_bytes"`
	// DeadLetterBytes and PlanBytes bound the dead-letter stream and each run's plan stream and checkpoints, in bytes. On an
	// embedded server every bound also gives way to the disk: at most half of what is
	// free when the stream is created.
	DeadLetterBytes int64 `koanf:"dead_letter_bytes"`
	PlanBytes       int64 `koanf:"plan_bytes"`
	// Replicas of each stream on a remote cluster, at least: one that is there with more keeps them.
	Replicas int `koanf:"replicas"`
	// MaxDocument bounds one message of the document stream, headers included, in bytes (embedded server).
	MaxDocument int `koanf:"max_document"`
	// Workers tokenize in parallel; 0 takes one a core.
	Workers int `koanf:"workers"`
	// BufferBytes bounds documents that are fetched but not yet planned.
	BufferBytes int64 `koanf:"buffer_bytes"`
	// ReconnectWait is the longest pause between attempts to reconnect.
	ReconnectWait time.Duration `koanf:"reconnect_wait"`
}

// Default returns the configuration of an embedded server on a loopback port.
func Default() Config {
	return Config{
		Dir:             "loaderd-data",
		Listen:          "127.0.0.1:4222",
		Name:            "DOCS",
		Subject:         "docs",
		MaxBytes:        64 << 30,
		DeadLetterBytes: 1 << 30,
		PlanBytes:       16 << 30,
		Replicas:        1,
		MaxDocument:     MaxDocumentLimit,
		BufferBytes:     64 << 20,
		ReconnectWait:   2 * time.Second,
	}
}

// Embedded says whether the daemon runs the server itself.
func (c Config) Embedded() bool { return c.URL == "" }

var (
	streamName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	subjectToken = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

// MaxDocumentLimit is the largest MaxDocument: the server's file store refuses records above 32 MiB, and a dead letter carries its
// document with headers of its own.
const MaxDocumentLimit = 32<<20 - 2*HeaderRoom

// HeaderRoom is what headers may add to a payload, in bytes: the server's own limit on headers.
const HeaderRoom = 64 << 10

// Validate returns every bad field. It looks at values only, not at files or servers.
func (c Config) Validate() []plan.FieldError {
	var bad []plan.FieldError
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			bad = append(bad, plan.FieldError{Field: field, Value: value, Want: want})
		}
	}
	if c.Embedded() {
		check(c.Dir != "", "dir", c.Dir, "a folder for the embedded server's data")
		check(validListen(c.Listen), "listen", c.Listen, "host:port with a port of 0 (a free one) to 65535")
		check(c.MaxDocument >= 1<<10 && c.MaxDocument <= MaxDocumentLimit, "max_document", c.MaxDocument,
			fmt.Sprintf("1024 to %d bytes (records of the server's file store end at 32 MiB)", MaxDocumentLimit))
		check(c.Replicas <= 1, "replicas", c.Replicas, "1 with the embedded server")
		check(c.TLS == conn.TLS{}, "tls", c.TLS, "nothing with the embedded server: TLS is for remote servers (url)")
		check(c.Credentials == "", "credentials", c.Credentials, "nothing with the embedded server: credentials are for remote servers (url)")
		check(c.NKey == "", "nkey", c.NKey, "nothing with the embedded server: the seed is for remote servers (url)")
	} else {
		for _, u := range strings.Split(c.URL, ",") {
			check(validURL(u), "url", conn.Redacted(u), "nats://host:port or tls://host:port, comma separated")
		}
		check((c.TLS.Cert == "") == (c.TLS.Key == ""), "tls", c.TLS, "cert and key together")
		check(c.Credentials == "" || c.NKey == "", "nkey", c.NKey, "credentials or nkey, not both")
	}
	check(c.Replicas >= 1 && c.Replicas <= 5, "replicas", c.Replicas, "1 to 5")
	check(streamName.MatchString(c.Name), "name", c.Name, "1 to 64 letters, digits, - and _")
	check(subjectToken.MatchString(c.Subject) && len(c.Subject) <= 128 && !reservedSubject(c.Subject), "subject", c.Subject,
		"letters, digits, - and _, in parts joined by dots, and not below dead, plan or loaderd")
	check(c.MaxBytes >= 1<<20, "max_bytes", c.MaxBytes, "at least 1 MiB, in bytes")
	check(c.DeadLetterBytes >= 1<<20, "dead_letter_bytes", c.DeadLetterBytes, "at least 1 MiB, in bytes")
	check(c.PlanBytes >= 1<<20, "plan_bytes", c.PlanBytes, "at least 1 MiB, in bytes")
	check(c.Workers >= 0 && c.Workers <= 1024, "workers", c.Workers, "0 (one a core) to 1024")
	check(c.BufferBytes >= 1<<20, "buffer_bytes", c.BufferBytes, "at least 1 MiB, in bytes")
	check(c.ReconnectWait >= 10*time.Millisecond && c.ReconnectWait <= 10*time.Minute, "reconnect_wait", c.ReconnectWait, "10ms to 10m")
	return bad
}

// ValidRun says whether a name can name a run.
func ValidRun(run string) error {
	if !streamName.MatchString(run) {
		return fmt.Errorf("run name %q: want 1 to 64 letters, digits, - and _", run)
	}
	return nil
}

func validListen(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// reservedSubject says whether a subject lies where the daemon keeps its own streams and services.
func reservedSubject(subject string) bool {
	first, _, _ := strings.Cut(subject, ".")
	return first == deadSubject || first == planSubject || first == ServiceSubject
}

// The first tokens of subjects that the daemon uses itself.
const (
	deadSubject = "dead"
	planSubject = "plan"
)

// ServiceSubject is the first token of subjects on which daemons answer questions.
const ServiceSubject = "loaderd"

func validURL(raw string) bool {
	u, err := url.Parse(strings.TrimSpace(raw))
	return err == nil && (u.Scheme == "nats" || u.Scheme == "tls") && u.Hostname() != ""
}
