package loader

// Health says how a run does, in one word.
type Health string

// Healths, the best first.
const (
	Running Health = "running" // steps come, or the run has ended as it should
	Waiting Health = "waiting" // for something that comes, or that somebody has to bring: documents, ranks
	Failing Health = "failing" // something is broken
)

// Verdict says in one sentence how a run does: the same on the page, in loaderd status and in the errors of readers that wait.
type Verdict struct {
	Health   Health            `json:"health"`
	Sentence string            `json:"sentence"`
	Detail   string            `json:"detail,omitempty"` // what else is known
	Do       string            `json:"do,omitempty"`
	Reason   Reason            `json:"reason,omitempty"` // of what a reader waits for
	Facts    map[string]string `json:"facts,omitempty"`
}
