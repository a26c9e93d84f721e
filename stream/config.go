// Package stream is the daemon's store on NATS JetStream: its configuration, a connection and optionally the
// embedded server, the streams and buckets with their settings, and the message format of a document. Packages
// below it use the streams: docstream reads documents, deadletter stores undecodable ones, planlog stores a run's
// plan, publish adds documents.
package stream

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/auth"
	"loaderd/loader/runconfig"
	"loaderd/stream/conn"
	"loaderd/stream/server"
)

// Config configures where the streams are. It does not affect the plan.
type Config struct {
	// URL of NATS servers, comma separated (nats:// or tls://). Empty runs a server inside the daemon.
	URL string `koanf:"url"`
	// Dir is the data folder of the embedded server.
	Dir string `koanf:"dir"`
	// Listen is the address where the embedded server accepts NATS clients. Loopback by default; port 0 selects a
	// free port.
	Listen string `koanf:"listen"`
	// Insecure permits the embedded server to listen beyond loopback without TLS.
	Insecure bool `koanf:"insecure"`
	// Cluster joins the embedded servers of several daemons into one cluster. Without a name each server is standalone.
	Cluster server.Cluster `koanf:"cluster"`
	// Credentials is a NATS credentials file; NKey an NKey seed file.
	Credentials string `koanf:"credentials"`
	NKey        string `koanf:"nkey"`
	// SystemAccount is the login for the account of the daemon's own streams (plans, checkpoints, low watermarks, leases),
	// if that is a different account than the documents'.
	SystemAccount Login `koanf:"system_account"`
	// TokenFile holds the token of a server at URL: of one inside a daemon, operator.token or producer.token of
	// its data folder. Without one, and without other credentials, the client looks for the tokens of a daemon on
	// this machine in Dir.
	TokenFile string `koanf:"token_file"`
	// TLS are the files of a client of URL's servers. For the embedded server they are its certificate for clients, and
	// the certificates of the members of its cluster for each other.
	TLS conn.TLS `koanf:"tls"`
	// Name is the document stream; its subjects are everything below Subject (docs -> docs.>).
	Name    string `koanf:"name"`
	Subject string `koanf:"subject"`
	// MaxBytes bounds the document stream. A full stream causes backpressure on producers.
	MaxBytes int64 `koanf:"max_bytes"`
	// DeadLetterBytes and PlanBytes bound the dead-letter stream and each run's plan stream and checkpoints, in bytes.
	// On an embedded server the disk also limits every bound: at most half of the free space when the stream is created.
	DeadLetterBytes int64 `koanf:"dead_letter_bytes"`
	PlanBytes       int64 `koanf:"plan_bytes"`
	// PlanKeyFile holds the keys that authenticate the records of plans; empty for none.
	PlanKeyFile string `koanf:"plan_key_file"`
	// Replicas is the minimum number of replicas of each stream on a cluster; an existing stream with more keeps
	// them. 0 gives new streams three on a cluster of three or more servers and one otherwise, and does not change
	// existing streams.
	Replicas int `koanf:"replicas"`
	// MaxDocument bounds one message of the document stream, headers included, in bytes (embedded server).
	MaxDocument int `koanf:"max_document"`
	// Workers tokenize in parallel; 0 selects one per core.
	Workers int `koanf:"workers"`
	// BufferBytes bounds documents that are fetched but not yet planned.
	BufferBytes int64 `koanf:"buffer_bytes"`
	// ReconnectWait is the longest pause between attempts to reconnect.
	ReconnectWait time.Duration `koanf:"reconnect_wait"`
	// Sources are the sources whose streams producers may publish to, in addition to the document stream.
	Sources []string `koanf:"-"`

	// Source is the source of these documents; empty for the document stream itself. Shares is how many sources share
	// the disk and the buffer.
	Source string `koanf:"-"`
	Shares int    `koanf:"-"`
}

// Login identifies a client of NATS by at most one of the two files.
type Login struct {
	Credentials string `koanf:"credentials"` // a credentials file
	NKey        string `koanf:"nkey"`        // an NKey seed file
}

// Default returns the configuration of an embedded server on a loopback port.
func Default() Config {
	return Config{
		Dir:             "loaderd-data",
		Listen:          "127.0.0.1:4222",
		Cluster:         server.Cluster{Listen: "127.0.0.1:6222", Peers: []string{}},
		Name:            "DOCS",
		Subject:         "docs",
		MaxBytes:        64 << 30,
		DeadLetterBytes: 1 << 30,
		PlanBytes:       16 << 30,
		MaxDocument:     MaxDocumentLimit,
		BufferBytes:     32 << 20,
		ReconnectWait:   2 * time.Second,
	}
}

// Embedded reports whether the daemon runs the server itself.
func (c Config) Embedded() bool { return c.URL == "" }

// Clustered reports whether the daemon's own server is a member of a cluster.
func (c Config) Clustered() bool { return c.Embedded() && c.Cluster.Name != "" }

var (
	streamName   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	subjectToken = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

// MaxDocumentLimit is the largest MaxDocument. The server's file store refuses records above 32 MiB, and a dead
// letter adds headers to the document.
const MaxDocumentLimit = 32<<20 - 2*HeaderRoom

// HeaderRoom is how many bytes headers may add to a payload: the server's own limit on headers.
const HeaderRoom = 64 << 10

// Validate returns every bad field. It checks only values, not files or servers.
func (c Config) Validate() []runconfig.FieldError {
	var bad []runconfig.FieldError
	check := func(ok bool, field string, value any, want string) {
		if !ok {
			bad = append(bad, runconfig.FieldError{Field: field, Value: value, Want: want})
		}
	}
	if c.Embedded() {
		check(c.Dir != "", "dir", c.Dir, "a folder for the embedded server's data")
		check(validListen(c.Listen), "listen", c.Listen, "host:port with a port of 0 (a free one) to 65535")
		check(c.MaxDocument >= 1<<10 && c.MaxDocument <= MaxDocumentLimit, "max_document", c.MaxDocument,
			fmt.Sprintf("1024 to %d bytes (records of the server's file store end at 32 MiB)", MaxDocumentLimit))
		if c.Clustered() {
			c.checkCluster(check)
		} else {
			check(c.Replicas <= 1, "replicas", c.Replicas,
				"1, or 0 (left to the daemon), with a standalone embedded server")
			check(len(c.Cluster.Peers) == 0, "cluster.peers", c.Cluster.Peers,
				"nothing without stream.cluster.name, the name of the cluster")
		}
		check(c.TLS.CA == "" || c.TLS.Cert != "", "tls.ca", c.TLS.CA,
			"nothing where the embedded server has no certificate (tls.cert, tls.key)")
		check(c.SystemAccount == Login{}, "own", c.SystemAccount,
			"nothing with the embedded server: it has its own accounts")
		check(c.TokenFile == "", "token_file", c.TokenFile,
			"nothing with the embedded server: it has its own in its data folder")
		check(c.Credentials == "", "credentials", c.Credentials,
			"nothing with the embedded server: credentials are for remote servers (url)")
		check(c.NKey == "", "nkey", c.NKey, "nothing with the embedded server: the seed is for remote servers (url)")
	} else {
		check(c.Cluster.Name == "", "cluster.name", c.Cluster.Name,
			"nothing with remote servers (url): a cluster consists of embedded servers")
		check(len(c.Cluster.Peers) == 0, "cluster.peers", c.Cluster.Peers,
			"nothing with remote servers (url): a cluster consists of embedded servers")
		for u := range strings.SplitSeq(c.URL, ",") {
			check(validURL(u), "url", conn.RedactURL(u), "nats://host:port or tls://host:port, comma separated")
		}
		given := slices.DeleteFunc([]string{c.Credentials, c.NKey, c.TokenFile}, func(s string) bool { return s == "" })
		check(len(given) <= 1, "nkey", c.NKey, "one of credentials, nkey and token_file")
		check(c.SystemAccount.Credentials == "" || c.SystemAccount.NKey == "", "own.nkey", c.SystemAccount.NKey,
			"credentials or nkey, not both")
		check(c.SystemAccount == Login{} || c.TokenFile == "", "own", c.SystemAccount,
			"nothing with token_file: that token is for both accounts")
	}
	check((c.TLS.Cert == "") == (c.TLS.Key == ""), "tls", c.TLS, "cert and key together")
	check(c.Replicas >= 0 && c.Replicas <= 5, "replicas", c.Replicas, "0 (3 on a cluster of as many servers, else 1) to 5")
	check(streamName.MatchString(c.Name), "name", c.Name, "1 to 64 letters, digits, - and _")
	check(subjectToken.MatchString(c.Subject) && len(c.Subject) <= 128 && !reservedSubject(c.Subject),
		"subject", c.Subject,
		"letters, digits, - and _, in parts joined by dots, and not below dead, plan or loaderd")
	check(c.MaxBytes >= 1<<20, "max_bytes", c.MaxBytes, "at least 1 MiB, in bytes")
	check(c.DeadLetterBytes >= 1<<20, "dead_letter_bytes", c.DeadLetterBytes, "at least 1 MiB, in bytes")
	check(c.PlanBytes >= 1<<20, "plan_bytes", c.PlanBytes, "at least 1 MiB, in bytes")
	check(c.Workers >= 0 && c.Workers <= 1024, "workers", c.Workers, "0 (one a core) to 1024")
	check(c.BufferBytes >= 1<<20, "buffer_bytes", c.BufferBytes, "at least 1 MiB, in bytes")
	check(c.ReconnectWait >= 10*time.Millisecond && c.ReconnectWait <= 10*time.Minute, "reconnect_wait", c.ReconnectWait,
		"10ms to 10m")
	return bad
}

// checkCluster checks the membership of a cluster.
func (c Config) checkCluster(check func(ok bool, field string, value any, want string)) {
	m := c.Cluster
	safe := c.TLS.Cert != "" && c.TLS.CA != ""
	const notSafe = "a loopback address: routes between machines need certificates (stream.tls.cert, key and ca)"
	check(streamName.MatchString(m.Name), "cluster.name", m.Name, "1 to 64 letters, digits, - and _")
	check(validPeer(m.Listen), "cluster.listen", m.Listen,
		"host:port with a port of 1 to 65535, which the other members name in their peers")
	check(safe || !validPeer(m.Listen) || auth.IsLoopback(m.Listen), "cluster.listen", m.Listen, notSafe)
	check(m.Advertise == "" || validPeer(m.Advertise), "cluster.advertise", m.Advertise,
		"host:port where the other members reach this one, or nothing")
	check(safe || !validPeer(m.Advertise) || auth.IsLoopback(m.Advertise), "cluster.advertise", m.Advertise, notSafe)
	check(c.TLS.Cert == "" || c.TLS.CA != "", "tls.ca", c.TLS.CA,
		"the authorities of the members' certificates, which they show to each other")
	check(len(m.Peers) >= 3 && len(m.Peers) <= 64, "cluster.peers", m.Peers,
		"3 to 64 addresses, of all members and this one: with fewer none may fail")
	for i, peer := range m.Peers {
		field := fmt.Sprintf("cluster.peers[%d]", i)
		check(validPeer(peer), field, peer, "host:port of a member's cluster.listen")
		check(safe || !validPeer(peer) || auth.IsLoopback(peer), field, peer, notSafe)
		check(!slices.Contains(m.Peers[:i], peer), field, peer, "every member once")
	}
	check(len(m.Peers) < 3 || c.Replicas <= len(m.Peers), "replicas", c.Replicas,
		fmt.Sprintf("at most the members of the cluster, %d", len(m.Peers)))
}

// ValidRun returns an error if a name is not valid for a run.
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

// validPeer reports whether an address is usable by other members.
func validPeer(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	return validListen(address) && port != "0"
}

// reservedSubject reports whether a subject is reserved for the daemon's own streams and services.
func reservedSubject(subject string) bool {
	first, _, _ := strings.Cut(subject, ".")
	return first == deadLetterSubject || first == planSubject || first == ServiceSubject
}

// The first tokens of subjects of the daemon's own streams.
const (
	deadLetterSubject = "dlq"
	planSubject       = "plan"
)

// ServiceSubject is the first token of subjects on which daemons serve requests.
const ServiceSubject = "loaderd"

func validURL(raw string) bool {
	u, err := url.Parse(strings.TrimSpace(raw))
	return err == nil && (u.Scheme == "nats" || u.Scheme == "tls") && u.Hostname() != ""
}
