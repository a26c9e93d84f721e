package status

import (
	"log/slog"
	"regexp"
	"strings"

	"loaderd/internal/event"
)

// eventTemplate describes how a log line is displayed as an event.
type eventTemplate struct {
	event slog.Attr
	kind  string // of a line below a warning; empty: not an event
	text  string // with {values} of the line; empty: message and all values
	do    string // advice, if the line has no value do
}

// eventTemplates are the log lines that are events or have another text as events, by the names of their events.
var eventTemplates = indexByEvent([]eventTemplate{
	{event.ReaderJoined, "reader", "Rank {rank} of {world} joined at step {from_step}", ""},
	{event.ReaderLeft, "reader", "Rank {rank} of {world} left at step {at_step}: {why}",
		"no action if its trainer was stopped on purpose; otherwise check that rank's log"},
	{event.RankResolved, "reader", "Job {job}, world size {world}: rank {ranks} no longer holds the others", ""},
	{event.RunStarted, "leader", "The run started", ""},
	{event.LeadershipAcquired, "leader", "This daemon leads the run, term {term}", ""},
	{event.PlannerRestored, "leader", "The planner was restored at step {step}", ""},
	{event.RunEnded, "seal", "The run ended at step {steps}",
		"stop the trainer after the last step"},
	{event.RunEstimated, "measure", "The run will end at step {steps}", ""},
	{event.DaemonReady, "daemon", "The daemon is ready, after {after}", ""},
	{event.SourceResumed, "source",
		`Source "{source}" resumed: it has documents again`, ""},
	{event.StreamMatches, "source", "", ""},
	{event.FlushIdle, "flush", "", ""},
	{event.FlushEarly, "flush",
		"Packed {documents} documents before the shuffle window was full, for a reader that waits", ""},
	{event.ConnectionRestored, "source", "The connection to NATS is restored", ""},
	{event.StreamReadResumed, "source", `Stream "{stream}" is readable again after {down}`, ""},
	{event.CredentialsReloaded, "access", "Reloaded: {what}", ""},
	{event.StreamHasRoom, "source", `Stream "{stream}" has room again`, ""},
	// Warnings and errors are events in any case.
	{event.StreamNearlyFull, "",
		`Stream "{stream}" is nearly full: {bytes} of {max_bytes} bytes`, ""},
	{event.StreamFull, "",
		`Stream "{stream}" is full: {bytes} of {max_bytes} bytes. Producers wait`, ""},
	{event.StreamBoundLowered, "",
		`Stream "{stream}" may hold {bytes} bytes, not the {configured_bytes} of {setting}: the disk has too little space`,
		""},
	{event.RankMissing, "", "{cause}", ""},
	{event.StallStarted, "",
		"{readers} readers have waited {waited} for step {step}. {cause}", ""},
	{event.StallResolved, "",
		"Step {step} was planned after a wait of {waited}", "no action: steps are planned again"},
	{event.ConnectionLost, "", "The connection to NATS is lost: {error}",
		"no action if it reconnects; otherwise check the NATS servers"},
	{event.StreamReadFailed, "",
		`Stream "{stream}" cannot be read: {error}`, "check the NATS servers; the daemon tries again"},
	{event.LeadershipLost, "", "This daemon no longer leads the run",
		"no action: another daemon leads"},
	{event.DocumentDeadLettered, "",
		`Document {sequence} of "{stream}" cannot be decoded: {reason}: {problem}`,
		"check the document (loaderd dlq list) and its producer"},
	{event.SourcePaused, "",
		`Source "{source}" is paused: it has no documents, and other sources share its weight`,
		"publish documents to it, or end it (loaderd seal SOURCE)"},
	{event.CheckpointFailed, "", "",
		"check the JetStream server and its disk"},
	{event.JetStreamUnavailable, "", "",
		"check the JetStream servers and their disks"},
	{event.RetentionFailed, "", "",
		"check the JetStream servers if this persists"},
	{event.CredentialsExpiring, "", "Expires on {expires}: {what}",
		"replace the file; it is reloaded"},
})

func indexByEvent(list []eventTemplate) map[string]eventTemplate {
	out := make(map[string]eventTemplate, len(list))
	for _, l := range list {
		out[l.event.Value.String()] = l
	}
	return out
}

// auditTemplates are the audit lines that are events, by action. {by} is the caller's identity, empty without a name.
var auditTemplates = map[string]eventTemplate{
	"seal":       {event.Audit, "seal", "The run was sealed{by}", ""},
	"flush":      {event.Audit, "flush", "The run was flushed{by}", ""},
	"mix":        {event.Audit, "weights", "The weights were set{by}: {weights}", ""},
	"filter":     {event.Audit, "filter", "The filter was set{by}: {filter}", ""},
	"schedule":   {event.Audit, "schedule", "The schedule of steps was set{by}: {phases}", ""},
	"checkpoint": {event.Audit, "checkpoint", "A checkpoint was stored on request{by}", ""},
	"leave":      {event.Audit, "job", `Job "{job}" was removed{by}`, ""},
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// render fills values into the text. ok is false if a value is missing.
func (l eventTemplate) render(values map[string]string) (text string, ok bool) {
	ok = l.text != ""
	text = placeholder.ReplaceAllStringFunc(l.text, func(place string) string {
		v, there := values[strings.Trim(place, "{}")]
		ok = ok && there
		return v
	})
	return text, ok
}
