// Package event names the events of the daemon's log. Programs match on these names, not on messages: names are stable,
// messages are not. docs/reference/events.md lists them.
package event

import "log/slog"

// Key is the key of the attribute that holds an event's name.
const Key = "event"

// Event is a kind of log record.
type Event struct {
	Name    string // noun.verb, such as reader.joined
	Meaning string // when it is logged, and with which keys
}

var all []Event

// All returns all events in the order of their definition.
func All() []Event { return all }

func define(name, meaning string) slog.Attr {
	all = append(all, Event{name, meaning})
	return slog.String(Key, name)
}

// The daemon.
var (
	DaemonReady    = define("daemon.ready", "The daemon serves: `run`, `flight`, `nats`, `http`, `after`.")
	DaemonStopping = define("daemon.stopping", "The daemon shuts down: `timeout`.")
	DaemonFailed   = define("daemon.failed", "The run has failed, and the daemon ends: `error`.")
	DaemonProgress = define("daemon.progress",
		"Every `log.progress`: steps, documents, tokens, rates, buffers and readers.")
	DaemonIdle = define("daemon.idle",
		"No document, step or reader has changed since the last `daemon.progress`; logged once.")
	Audit = define("audit",
		"A caller requested an action that changes the run or reveals the origin of documents: `identity`,"+
			" `role`, `action`, `address`, and `error` for a refused one.")
	ConfigReloading = define("config.reloading", "SIGHUP: certificates, tokens, identities and limits are read again.")
)

// The run.
var (
	RunStarted   = define("run.started", "The plan of a new run begins: `fingerprint`, `sources`.")
	RunEstimated = define("run.estimated", "The length of the run is known: `steps`.")
	RunEnded     = define("run.ended", "The last step is planned: `steps`, `last_document`.")

	PlannerRestored = define("planner.restored",
		"The planner continues from a checkpoint: `checkpoint`, `step`, `document`.")

	CheckpointRejected = define("checkpoint.rejected",
		"A stored checkpoint cannot be used; an older one is tried: `checkpoint`, `error`.")
	CheckpointFailed = define("checkpoint.failed",
		"A checkpoint was not stored; a restart replays from an older one: `step`, `error`.")

	FlushEarly = define("flush.early",
		"Buffered documents were packed before the shuffle window was full, for a reader that waits:"+
			" `document`, `documents`, `quiet`, `waited`.")
	FlushIdle = define("flush.idle",
		"Pool and shuffle window were flushed: no document arrives, and a reader waits: `document`.")

	RetentionFailed = define("retention.failed",
		"Documents below the low watermark were not purged; the daemon tries again: `error`.")
)

// Leadership among the daemons of a run.
var (
	LeadershipAcquired = define("leadership.acquired", "This daemon leads the run: `term`.")
	LeadershipLost     = define("leadership.lost", "This daemon no longer leads the run: `cause`.")

	ClusterSecretCreated = define("cluster.secret_created",
		"The daemon generated the secret of its cluster: `file`, `cluster`.")
)

// Readers and their ranks.
var (
	ReaderJoined = define("reader.joined",
		"A reader opened a stream of steps: `rank`, `world`, `job`, `address`, `from_step`.")
	ReaderLeft = define("reader.left", "A stream of steps ended: keys of `reader.joined`, `at_step`, `after`, `why`.")
	ReaderCut  = define("reader.cut",
		"The daemon closed the connection of a reader that takes no data while its batches hold memory.")

	RankMissing = define("rank.missing",
		"A rank holds the other ranks of its job: `job`, `world`, `ranks`, `state`, `step`, `cause`, `do`.")
	RankResolved = define("rank.resolved", "A missing rank no longer holds the others: `job`, `world`, `ranks`.")

	WorldSizeChanged = define("world.changed",
		"The ranks of a job have agreed on another world size: `job`, `ranks`, `from_step`.")

	StallStarted = define("stall.started", "Readers wait for a step for 10 s: `step`, `readers`, `waited`, `reason`, "+
		"`cause`, `do`. Again when the cause changes, and every minute.")
	StallResolved = define("stall.resolved", "The step that readers waited for is planned: `step`, `waited`.")

	CallFailed = define("call.failed", "A Flight call ended with an error: `method`, `address`, `error`.")
)

// Sources and their document streams.
var (
	SourcePaused  = define("source.paused", "A source has no documents; the other sources share its weight: `source`.")
	SourceResumed = define("source.resumed", "A paused source has documents again: `source`.")

	StreamOpened = define("stream.opened",
		"A document stream that could not be opened before is open: `source`, `after`.")
	StreamOpenFailed = define("stream.open_failed",
		"A document stream cannot be opened; the daemon tries again: `source`, `error`.")
	StreamReadFailed = define("stream.read_failed",
		"A document stream cannot be read; the daemon tries again: `stream`, `next`, `error`.")
	StreamReadResumed = define("stream.read_resumed", "A document stream is read again: `stream`, `next`, `down`.")
	StreamMismatch    = define("stream.mismatch",
		"A document stream is not as the run requires, such as one with lost documents: `error`.")
	StreamMatches    = define("stream.matches", "The document streams are as the run requires again.")
	StreamNearlyFull = define("stream.nearly_full", "90 % of a stream's bound are used, or half of it and the rest "+
		"will be within an hour: `stream`, `bytes`, `max_bytes`, `do`.")
	StreamFull = define("stream.full",
		"A document stream is full, and producers wait: keys of `stream.nearly_full`.")
	StreamHasRoom = define("stream.has_room",
		"Less than 85 % of the bound are used again: `stream`, `bytes`, `max_bytes`.")
	StreamBoundLowered = define("stream.bound_lowered", "The disk has too little space for the configured bound of a "+
		"stream: `stream`, `bytes`, `configured_bytes`, `setting`.")

	DocumentsSkipped = define("documents.skipped",
		"The run skipped documents: `reason`, `what`, `skipped`, `total`, `do`.")
	DocumentDeadLettered = define("document.dead_lettered",
		"A document could not be decoded and was stored as a dead letter: `stream`, `sequence`, `reason`, `problem`.")
)

// Connections and credentials.
var (
	ConnectionLost     = define("connection.lost", "The connection to NATS is lost; the daemon reconnects: `error`.")
	ConnectionRestored = define("connection.restored", "The connection to NATS is restored: `server`.")

	JetStreamUnavailable = define("jetstream.unavailable",
		"JetStream does not answer; the daemon tries again: `action`, `error`.")

	HandshakeFailed = define("tls.handshake_failed", "A client's TLS handshake failed: `address`, `error`.")

	CredentialsExpiring = define("credentials.expiring", "A certificate or token expires soon: `what`, `expires`.")
	CredentialsReloaded = define("credentials.reloaded",
		"A certificate, token or list of identities was read again: `what`, `files`.")
	CredentialsReloadFailed = define("credentials.reload_failed",
		"A certificate, token or list of identities cannot be read again; the previous one stays in use: `what`, `error`.")
)

// The NATS server inside the daemon (`part=nats-server`).
var (
	NATSClientRefused = define("nats.client_refused",
		"A client was refused: wrong user or token, or too many connections: `client`, `user`, `do`.")
	NATSPermissionDenied = define("nats.permission_denied",
		"A client may not publish or subscribe to a subject: `client`, `user`, `subject`, `do`.")
	NATSMessageTooLarge = define("nats.message_too_large",
		"A client sent a message that is too large, and was disconnected: `client`, `bytes`, `max_bytes`, `do`.")
	NATSSlowConsumer = define("nats.slow_consumer",
		"A client reads too slowly, and was disconnected: `client`, `limit`, `do`.")
	NATSSlowProcessing = define("nats.slow_processing",
		"The server took long to process a client's messages: `client`, `took`, `do`.")
	NATSMessagesRefused = define("nats.messages_refused", "The server refused messages: its disk is too slow, or the "+
		"limit of an account is reached: `account`, `stream`, `error`, `do`.")
	NATSWriteFailed = define("nats.write_failed",
		"The server cannot write a stream, or stopped writing: `stream`, `error`, `do`.")

	StreamNoQuorum = define("stream.no_quorum",
		"A stream of a cluster has no quorum and cannot be written: `account`, `stream`, `do`.")

	ClusterForming           = define("cluster.forming", "The server waits for the other members of its cluster: `do`.")
	ClusterMemberUnreachable = define("cluster.member_unreachable",
		"A member of the cluster cannot be reached: `attempt`, `error`, `do`.")
	ClusterMemberRefused = define("cluster.member_refused",
		"A member of the cluster was refused, because another has its name: `name`, `do`.")
	ClusterMemberLagging = define("cluster.member_lagging",
		"A member of the cluster lags behind: `group`, `state`, `do`.")
)
