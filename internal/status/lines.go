package status

import (
	"regexp"
	"strings"
)

// line is how a line of the log is told as an event.
type line struct {
	kind string // of one below a warning; such a line that has none is no event
	text string // with {values} of the line; empty: its message, and behind that all of its values
	do   string // what to do about it, where the line does not say so itself
}

// lines are the lines of the log that are told in another way than as they stand there, by their messages.
var lines = map[string]line{
	"a reader has come": {"reader", "Rank {rank} of {world} has come, from step {from_step} on", ""},
	"a reader has gone": {"reader", "Rank {rank} of {world} has gone at step {at_step}: {why}",
		"nothing, if its trainer has stopped on purpose; else look at that rank's log"},
	"missing rank resolved":      {"reader", "Job {job}, world size {world}: rank {ranks} no longer holds the others", ""},
	"new run":                    {"leader", "The run begins", ""},
	"this process leads the run": {"leader", "This daemon leads the run, term {term}", ""},
	"planner restored":           {"leader", "The planner is restored at step {step}", ""},
	"run ended": {"seal", "The run has ended at step {steps}",
		"stop the trainer when it has read the last step"},
	"the run is measured": {"measure", "The run is measured: it will end at step {steps}", ""},
	"ready":               {"daemon", "The daemon is ready, after {after}", ""},
	"a source has documents again, and takes its share": {"source",
		`Source "{source}" has documents again, and takes its share`, ""},
	"the document stream is as the run needs it again":                    {"source", "", ""},
	"the stream is quiet and a reader waits: pool and window are drained": {"drain", "", ""},
	"drained early for a waiting reader": {"drain",
		"Documents packed for a reader that waits, before the shuffle window was full: {documents}", ""},
	"connection to NATS is back":        {"source", "The connection to NATS is back", ""},
	"document stream can be read again": {"source", `Stream "{stream}" can be read again, after {down}`, ""},
	"read again":                        {"access", "Read again: {what}", ""},
	"document stream has room again":    {"source", `Stream "{stream}" has room again`, ""},
	// Warnings and errors are events anyhow.
	"document stream is nearly full": {"",
		`Stream "{stream}" is nearly full: {bytes} of {max_bytes} bytes`, ""},
	"document stream is full, producers wait": {"",
		`Stream "{stream}" is full: {bytes} of {max_bytes} bytes. Producers wait`, ""},
	"stream bound is below its setting, the disk has too little space": {"",
		`Stream "{stream}" may hold {bytes} bytes, not the {configured_bytes} of {setting}: the disk has too little space`,
		""},
	"rank missing": {"", "{cause}", ""},
	"readers wait for a step": {"",
		"Step {step} has not come for {waited}, readers that wait: {readers}. {cause}", ""},
	"readers wait no more": {"",
		"Step {step} is there: ranks have waited for {waited}", "nothing: steps come again"},
	"connection to NATS lost, reconnecting": {"", "The connection to NATS is lost: {error}",
		"nothing, if it comes back by itself; else look at the NATS servers"},
	"document stream cannot be read, trying again": {"",
		`Stream "{stream}" cannot be read: {error}`, "look at the NATS servers; the daemon tries again"},
	"this daemon no longer leads the run": {"", "This daemon no longer leads the run",
		"nothing: another daemon leads"},
	"document is undecodable and went to the dead letters": {"",
		`Document {sequence} of "{stream}" cannot be decoded: {reason}: {problem}`,
		"look at it (loaderd dead list), and at its producer"},
	"a source has no documents: the others share its weight until it has": {"",
		`Source "{source}" has no documents: the others share its weight`,
		"publish documents to it, or end it with loaderd seal and its name"},
	"checkpoint not stored; a restart will re-plan from an older one": {"", "",
		"look at the JetStream server and its disk"},
	"JetStream does not answer, trying again": {"", "",
		"look at the JetStream servers and their disks"},
	"documents not released; trying again": {"", "",
		"look at the JetStream servers, if it goes on"},
	"expires soon: replace it, it is read again by itself": {"", "Expires on {expires}: {what}",
		"replace the file: it is read again by itself"},
}

// audited are the actions of which the audit's line is an event, by name. {by} is the identity that asked, where it has
// a name.
var audited = map[string]line{
	"seal":       {"seal", "The run was sealed{by}", ""},
	"drain":      {"drain", "The run was drained{by}", ""},
	"mix":        {"weights", "The weights were set{by}: {weights}", ""},
	"checkpoint": {"checkpoint", "A checkpoint was stored on request{by}", ""},
	"leave":      {"keeper", `Keeper "{keeper}" was removed{by}`, ""},
}

var places = regexp.MustCompile(`\{[a-z_]+\}`)

// tell fills values into a text; false where one of them is missing.
func (l line) tell(values map[string]string) (text string, ok bool) {
	ok = l.text != ""
	text = places.ReplaceAllStringFunc(l.text, func(place string) string {
		v, there := values[strings.Trim(place, "{}")]
		ok = ok && there
		return v
	})
	return text, ok
}
