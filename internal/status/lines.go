package status

import (
	"log/slog"
	"regexp"
	"strings"

	"loaderd/internal/event"
)

// line describes how a log line is displayed as an event.
type line struct {
	event slog.Attr
	kind  string // of a line below a warning; empty: not an event
	text  string // with {values} of the line; empty: message and all values
	do    string // advice, if the line has no value do
}

// lines are the log lines that are events or have another text as events, by the names of their events.
var lines = byEvent([]line{
	{event.ReaderJoined, "reader", "Rank {rank} of {world} has come, from step {from_step} on", ""},
	{event.ReaderLeft, "reader", "Rank {rank} of {world} has gone at step {at_step}: {why}",
		"nothing, if its trainer has stopped on purpose; else look at that rank's log"},
	{event.RankResolved, "reader", "Job {job}, world size {world}: rank {ranks} no longer holds the others", ""},
	{event.RunStarted, "leader", "The run begins", ""},
	{event.LeadershipAcquired, "leader", "This daemon leads the run, term {term}", ""},
	{event.PlannerRestored, "leader", "The planner is restored at step {step}", ""},
	{event.RunEnded, "seal", "The run has ended at step {steps}",
		"stop the trainer when it has read the last step"},
	{event.RunEstimated, "measure", "The run is measured: it will end at step {steps}", ""},
	{event.DaemonReady, "daemon", "The daemon is ready, after {after}", ""},
	{event.SourceResumed, "source",
		`Source "{source}" has documents again, and takes its share`, ""},
	{event.StreamMatches, "source", "", ""},
	{event.FlushIdle, "drain", "", ""},
	{event.FlushEarly, "drain",
		"Documents packed for a reader that waits, before the shuffle window was full: {documents}", ""},
	{event.ConnectionRestored, "source", "The connection to NATS is back", ""},
	{event.StreamReadResumed, "source", `Stream "{stream}" can be read again, after {down}`, ""},
	{event.CredentialsReloaded, "access", "Read again: {what}", ""},
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
		"Step {step} has not come for {waited}, readers that wait: {readers}. {cause}", ""},
	{event.StallResolved, "",
		"Step {step} is there: ranks have waited for {waited}", "nothing: steps come again"},
	{event.ConnectionLost, "", "The connection to NATS is lost: {error}",
		"nothing, if it comes back by itself; else look at the NATS servers"},
	{event.StreamReadFailed, "",
		`Stream "{stream}" cannot be read: {error}`, "look at the NATS servers; the daemon tries again"},
	{event.LeadershipLost, "", "This daemon no longer leads the run",
		"nothing: another daemon leads"},
	{event.DocumentDeadLettered, "",
		`Document {sequence} of "{stream}" cannot be decoded: {reason}: {problem}`,
		"look at it (loaderd dead list), and at its producer"},
	{event.SourcePaused, "",
		`Source "{source}" has no documents: the others share its weight`,
		"publish documents to it, or end it with loaderd seal and its name"},
	{event.CheckpointFailed, "", "",
		"look at the JetStream server and its disk"},
	{event.JetStreamUnavailable, "", "",
		"look at the JetStream servers and their disks"},
	{event.RetentionFailed, "", "",
		"look at the JetStream servers, if it goes on"},
	{event.CredentialsExpiring, "", "Expires on {expires}: {what}",
		"replace the file: it is read again by itself"},
})

func byEvent(list []line) map[string]line {
	out := make(map[string]line, len(list))
	for _, l := range list {
		out[l.event.Value.String()] = l
	}
	return out
}

// audited are the audit lines that are events, by action. {by} is the caller's identity, empty without a name.
var audited = map[string]line{
	"seal":       {event.Audit, "seal", "The run was sealed{by}", ""},
	"drain":      {event.Audit, "drain", "The run was drained{by}", ""},
	"mix":        {event.Audit, "weights", "The weights were set{by}: {weights}", ""},
	"checkpoint": {event.Audit, "checkpoint", "A checkpoint was stored on request{by}", ""},
	"leave":      {event.Audit, "keeper", `Keeper "{keeper}" was removed{by}`, ""},
}

var places = regexp.MustCompile(`\{[a-z_]+\}`)

// tell fills values into the text. ok is false if a value is missing.
func (l line) tell(values map[string]string) (text string, ok bool) {
	ok = l.text != ""
	text = places.ReplaceAllStringFunc(l.text, func(place string) string {
		v, there := values[strings.Trim(place, "{}")]
		ok = ok && there
		return v
	})
	return text, ok
}
