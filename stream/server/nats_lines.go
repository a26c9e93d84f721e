package server

import (
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"

	"loaderd/internal/event"
)

// natsLine defines how a line of the NATS server is logged: a message that names the fault, the named groups of the
// pattern as keys, and advice.
type natsLine struct {
	pattern     *regexp.Regexp // matches the line after its client
	event       slog.Attr
	message, do string
}

func newNATSLine(pattern string, e slog.Attr, message, do string) natsLine {
	return natsLine{regexp.MustCompile("^" + pattern), e, message, do}
}

const (
	restartAdvice = ", then restart the daemon"
	// streamPattern matches the stream of a line. Names in NATS contain neither quotes nor blanks.
	streamPattern = `'(?P<account>\S+) > (?P<stream>\S+)'`
)

// natsLines are the lines of nats-server 2.15 that require action by an operator. Other lines are logged unchanged.
var natsLines = []natsLine{
	newNATSLine(`authentication error(?: - (?:\w+ )*(?P<user>".*"))?$`,
		event.NATSClientRefused, "NATS client refused, wrong user or token",
		"give the client producer.token of the data folder, or a daemon operator.token (docs/explanation/security.md)"),
	newNATSLine(`Publish Violation - (?:Subject|Reply) (?P<subject>".*")$`,
		event.NATSPermissionDenied, "NATS client may not publish to this subject",
		"publish below stream.subject; only daemons may use other subjects (docs/explanation/security.md)"),
	newNATSLine(`Subscription Violation(?: Too Many Tokens)? - Subject (?P<subject>"(?:[^"\\]|\\.)*")`,
		event.NATSPermissionDenied, "NATS client may not subscribe to this subject",
		"read documents over Flight; only daemons may subscribe (docs/explanation/security.md)"),
	newNATSLine(`maximum payload exceeded: (?P<bytes>\d+) vs (?P<max_bytes>\d+)`,
		event.NATSMessageTooLarge, "NATS client disconnected, its message is too large",
		"split the document, or raise stream.max_document and restart the daemon"),
	newNATSLine(`maximum (?:account active )?connections exceeded`,
		event.NATSClientRefused, "NATS client refused, too many connections",
		"close connections that are not used"),
	newNATSLine(`TLS handshake error: (?P<error>.*)`,
		event.HandshakeFailed, "TLS handshake with a NATS client failed",
		"let the client use tls:// and trust the authority of stream.tls.cert"),
	newNATSLine(`TLS route handshake error: (?P<error>.*)`,
		event.HandshakeFailed, "TLS handshake with a cluster member failed",
		"check stream.tls of both members"),
	newNATSLine(`Error trying to connect to route \(attempt (?P<attempt>\d+)\): (?P<error>.*)`,
		event.ClusterMemberUnreachable, "cluster member is out of reach",
		"start its daemon, or check the network and stream.cluster.peers"),
	newNATSLine(`Remote server has a duplicate name: (?P<name>".*")`,
		event.ClusterMemberRefused, "cluster member refused, its name is taken",
		"give every daemon its own data folder (stream.dir)"),
	newNATSLine(`Waiting for routing to be established`,
		event.ClusterForming, "NATS server waits for the other cluster members",
		"start their daemons, or check the network and stream.cluster.peers"),
	newNATSLine(`JetStream cluster stream `+streamPattern+` has NO quorum`,
		event.StreamNoQuorum, "stream has no quorum and cannot be written",
		"start the cluster members that are missing, or check the network between them"),
	newNATSLine(`RAFT \[\S+ - (?P<group>\S+)\] (?P<state>(?:Falling behind|Quorum paused|Leader falling behind).*)`,
		event.ClusterMemberLagging, "cluster member lags behind",
		"check the disk and the network of this machine"),
	newNATSLine(`Slow Consumer (?:Detected|State): (?P<limit>MaxPending of \d+|WriteDeadline of \S+)`,
		event.NATSSlowConsumer, "NATS client disconnected, it reads too slowly",
		"check the client's machine and the network; the client reconnects"),
	newNATSLine(`Readloop processing time: (?P<took>\S+)`,
		event.NATSSlowProcessing, "NATS server took long to process messages of a client",
		"check the disk of stream.dir and the load of this machine"),
	newNATSLine(`Dropping messages due to excessive stream ingest rate on `+
		`'(?P<account>\S+)' > '(?P<stream>\S+)': (?P<error>.*)`,
		event.NATSMessagesRefused, "NATS server refused messages, the disk is too slow for the producers",
		"let producers wait for acknowledgements, and check the disk of stream.dir"),
	newNATSLine(`JetStream (?:\w+ resource|account) limits exceeded for (?:account: )?`+
		`["'](?P<account>[^"']+)["'](?:: (?P<error>.*))?`,
		event.NATSMessagesRefused, "NATS server refused messages, the limit of the account is reached",
		"delete streams that are not used, or raise the account's limit"),
	newNATSLine(`JetStream failed to store a msg on stream `+streamPattern+`: (?P<error>.*)`,
		event.NATSWriteFailed, "NATS server cannot write a stream",
		"check the disk of stream.dir"+restartAdvice),
	newNATSLine(`JetStream stream `+streamPattern+` critical write error: (?P<error>.*)`,
		event.NATSWriteFailed, "NATS server cannot write a stream",
		"check the disk of stream.dir"+restartAdvice),
	newNATSLine(`JetStream out of (?:\w+ )?(?:resources|space), will be DISABLED`,
		event.NATSWriteFailed, "NATS server stopped writing, the disk is full",
		"make room on the disk of stream.dir"+restartAdvice),
	newNATSLine(`Filesystem permission denied while writing msg, disabling JetStream: (?P<error>.*)`,
		event.NATSWriteFailed, "NATS server stopped writing, it may not write its files",
		"give stream.dir to the daemon's user"+restartAdvice),
}

// natsClient matches the client at the start of a line: its address and number, then, for a client, its library and
// name, then its account and user. Quoted parts are text of the client.
var natsClient = regexp.MustCompile(`^(\S+) - ([crw])id:(\d+) - (?:("(?:[^"\\]|\\.)*") - )?(?:("(?:[^"\\]|\\.)*") - )?`)

// natsSuffix matches the account and user that the server appends to lines that it rate-limits.
var natsSuffix = regexp.MustCompile(` - Account:(\S+)(?: - (?:user|nkey|jwt):(\S+))?$`)

// translate returns the message and keys of a line of the server. known is false for a line that is logged unchanged.
func translate(format string, v []any) (message string, keys []any, known bool) {
	client, rest := natsClient.FindStringSubmatch(format), format
	if client != nil { // its text is not a format string
		rest = fmt.Sprintf(format[len(client[0]):], v...)
	} else {
		rest = fmt.Sprintf(format, v...)
		if client = natsClient.FindStringSubmatch(rest); client != nil {
			rest = rest[len(client[0]):]
		}
	}
	account, user := "", ""
	if suffix := natsSuffix.FindStringSubmatch(rest); suffix != nil {
		account, user, rest = suffix[1], suffix[2], strings.TrimSuffix(rest, suffix[0])
	}
	for _, x := range natsLines {
		groups := x.pattern.FindStringSubmatch(rest)
		if groups == nil {
			continue
		}
		keys := clientKeys(client, account, user)
		for i, name := range x.pattern.SubexpNames() {
			keys.add(name, unquote(groups[i]))
		}
		return x.message, append([]any{x.event}, append(keys, "do", x.do)...), true
	}
	return "", nil, false
}

// clientKeys returns the keys of the client in a line; client is a match of natsClient or nil.
func clientKeys(client []string, account, user string) (keys lineKeys) {
	if client != nil {
		key := "client"
		if client[2] == "r" {
			key = "member"
		}
		keys.add(key, strings.ReplaceAll(client[1], "%%", "%"))
		if client[5] != "" {
			at := unquote(client[5])
			if i := strings.LastIndexByte(at, '/'); i >= 0 {
				account, user = at[:i], at[i+1:]
			}
		}
		keys.add("name", unquote(client[4]))
	}
	if _, name, ok := strings.Cut(user, ":"); ok {
		user = name
	}
	keys.add("account", account)
	keys.add("user", user)
	return keys
}

// lineKeys alternates keys and values.
type lineKeys []any

// add adds a key with its value, unless one of them is empty or the key exists.
func (k *lineKeys) add(key, value string) {
	for i := 0; i < len(*k); i += 2 {
		if (*k)[i] == key {
			return
		}
	}
	if key != "" && value != "" {
		*k = append(*k, key, value)
	}
}

// unquote returns the text of a quoted part, or the part unchanged if it is not quoted.
func unquote(s string) string {
	if text, err := strconv.Unquote(s); err == nil {
		return text
	}
	return s
}
