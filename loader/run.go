package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"loaderd/packonline"
)

// Options are what a Run needs besides its plan: nothing of it changes what is served, only when.
type Options struct {
	// Ahead is how many steps may be planned beyond what readers asked for.
	Ahead int `koanf:"ahead"`
	// CacheBytes bounds the tokens kept for assembling rows.
	CacheBytes int64 `koanf:"cache_bytes"`
	// Stall is how long a reader waits for a step, and a request for its record, before it gets the cause as an error.
	Stall time.Duration `koanf:"stall_timeout"`
	// Checkpoint is how many steps lie between two stored planner states. 0 stores none; a restart then re-plans from the start.
	Checkpoint int `koanf:"checkpoint_steps"`
	// Linger is how long the document stream may be quiet while a reader waits, before what waits is packed for it as by Drain. 0 never.
	Linger time.Duration `koanf:"linger"`
	// Release says what becomes of documents that neither a step behind the keepers' commits nor a restart needs: keep or purge.
	Release string `koanf:"release"`
	// ReleaseAfter is how long they are kept then.
	ReleaseAfter time.Duration `koanf:"release_after"`
}

// Edges are the parts of the world that a Run works with.
type Edges struct {
	Documents   Documents
	Plan        PlanLog
	Checkpoints Checkpoints // may be nil
	Floors      Floors      // may be nil: all documents stay
	Log         *slog.Logger
}

// Info describes a run to readers.
type Info struct {
	Run         string  `json:"run"`
	Fingerprint string  `json:"fingerprint"`
	Config      Config  `json:"config"`
	Start       uint64  `json:"start"`     // sequence of the first document
	Planned     uint64  `json:"planned"`   // steps 0 ... Planned-1 can be read
	Ended       bool    `json:"ended"`     // no step follows
	Committed   uint64  `json:"committed"` // all keepers' own checkpoints cover all steps before this one
	Oldest      uint64  `json:"oldest"`    // steps before this one are released: their documents may be gone
	Keepers     Keepers `json:"keepers"`
	// Was are names that the run had before its plan was repaired: who holds one of them means this run.
	Was []string `json:"was,omitempty"`
}

// Run is one run's plan and the rows made from it. Open it, call Serve once, read steps through Readers.
type Run struct {
	name    string
	config  Config
	options Options
	edges   Edges
	log     *slog.Logger

	header    Header
	fresh     bool    // nothing of the run has been written yet
	first     uint64  // document that the stream held at Open
	found     planEnd // at Open
	planner   *Planner
	tail      logTail // last record that the planner's state covers
	pending   []control
	assembler assembler
	plan      *planReader
	requests  chan request
	asked     chan struct{} // signals that readers asked for more
	end       announcement

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when what follows changes
	planned uint64
	ended   bool
	failed  error
	trouble string // with the document stream, empty without
	replays bool   // re-planning what the log holds
	keepers Keepers
	recent  map[uint64]*Step // the newest steps
	readers map[*Reader]struct{}
	high    uint64 // no reader asked for this step or a later one yet
	source  Source
	stats   planStats
	storing time.Time // when the append under way began; zero without one

	oldest          uint64   // steps before it cannot be read: their documents are purged
	kept            []uint64 // steps of the stored checkpoints, ascending
	checkpointed    uint64   // step of the newest checkpoint
	checkpointBytes int64

	starving time.Time // since when readers wait for the step that is planned next; zero while none does
}

// Open reads the plan and restores the planner. It refuses a plan made with another configuration or algorithm. It changes nothing: a
// new run begins with Serve.
func Open(ctx context.Context, name string, c Config, o Options, e Edges) (*Run, error) {
	if bad := c.Validate(); len(bad) > 0 {
		errs := make([]error, len(bad))
		for i, b := range bad {
			errs[i] = b
		}
		return nil, fmt.Errorf("open run %s: %w", name, errors.Join(errs...))
	}
	r := &Run{name: name, config: c, options: o, edges: e, log: e.Log.With("run", name), requests: make(chan request), asked: make(chan struct{}, 1), end: newAnnouncement(),
		changed: make(chan struct{}), recent: map[uint64]*Step{}, keepers: Keepers{}, readers: map[*Reader]struct{}{}, replays: true, plan: &planReader{log: e.Plan}}
	r.assembler = assembler{docs: e.Documents, cache: newTokenCache(o.CacheBytes), pad: c.Tokenizer.Pad, stall: o.Stall}
	state, err := e.Documents.State(ctx)
	if err != nil {
		return nil, fmt.Errorf("open run %s: read document stream: %w", name, err)
	}
	if r.header, err = r.readHeader(ctx, state); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	if r.found, err = r.plan.end(ctx); err != nil {
		return nil, fmt.Errorf("open run %s: read end of plan: %w", name, err)
	}
	if c := r.header.Repair; c != nil && r.found.records < c.Records {
		return nil, fmt.Errorf("open run %s: %w", name, c.unfinished(name, r.found.records))
	}
	r.planned, r.ended = r.found.steps, r.found.ended
	r.high = r.planned - min(r.planned, uint64(o.Ahead)) // what the readers before us asked for, at least
	if r.header.Repair != nil {
		r.high = max(r.high, r.header.Repair.Steps)
	}
	if err := r.restore(ctx); err != nil {
		return nil, fmt.Errorf("open run %s: %w", name, err)
	}
	r.first = state.First
	if err := r.sees(ctx, r.first); err != nil {
		return nil, fmt.Errorf("open run %s: find the oldest step that can be read: %w", name, err)
	}
	return r, nil
}

// readHeader returns the first record of the plan, or the one that a new run will write.
func (r *Run) readHeader(ctx context.Context, documents StreamState) (Header, error) {
	last, err := r.edges.Plan.Last(ctx)
	if err != nil {
		return Header{}, fmt.Errorf("read plan log: %w", err)
	}
	if last == 0 {
		r.fresh = true
		return Header{Format: FormatVersion, Algorithm: AlgorithmVersion, Run: r.name, Fingerprint: r.config.Fingerprint(),
			Start: documents.First, Stream: documents.Stream, Config: r.config}, nil
	}
	b, err := r.edges.Plan.Get(ctx, 1)
	if err != nil {
		return Header{}, fmt.Errorf("read plan header: %w", err)
	}
	rec, err := DecodeRecord(b)
	if err != nil {
		return Header{}, err
	}
	if rec.Kind != kindHeader {
		return Header{}, fmt.Errorf("read plan header: record 1 is of kind %d", rec.Kind)
	}
	r.tail = tailOf(1, b)
	if err := r.config.accepts(rec.Header); err != nil {
		return Header{}, err
	}
	return rec.Header, rec.Header.madeOf(documents.Stream)
}

// begin writes the header of a new run.
func (r *Run) begin(ctx context.Context) error {
	if err := r.edges.clear(ctx, r.header); err != nil {
		return err
	}
	b := encodeHeader(r.header)
	if err := r.store(ctx, []write{{records: [][]byte{b}}}); err != nil {
		return err
	}
	r.tail = tailOf(1, b)
	r.log.Info("new run", "fingerprint", r.header.Fingerprint, "first_document", r.header.Start)
	return nil
}

// otherAlgorithm says that another version of the planner made the plan.
func (h Header) otherAlgorithm() string {
	return fmt.Sprintf("run %s was planned by algorithm version %d, this binary has version %d", h.Run, h.Algorithm, AlgorithmVersion)
}

// accepts refuses a plan that this configuration or binary would continue differently.
func (c Config) accepts(h Header) error {
	mismatch := func(message, do string) error {
		return &Error{Reason: PlanMismatch, Message: message, Do: do,
			Facts: map[string]string{"plan_fingerprint": h.Fingerprint, "fingerprint": c.Fingerprint()}}
	}
	if h.Algorithm != AlgorithmVersion {
		return mismatch(h.otherAlgorithm(), "continue it with the binary that began it, or go on with this one in a fork: loaderd fork --run "+h.Run+" --step N --new NAME, N being the step that the training is at")
	}
	if h.Fingerprint != c.Fingerprint() {
		return mismatch(fmt.Sprintf("run %s was planned with another configuration: %s", h.Run, strings.Join(h.Config.Differences(c), "; ")),
			"restore the configuration or choose another run name")
	}
	return nil
}

// Info describes the run as of now.
func (r *Run) Info() Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	info := Info{Run: r.name, Fingerprint: r.header.Fingerprint, Config: r.config, Start: r.header.Start, Planned: r.planned, Ended: r.ended, Committed: r.keepers.Committed(), Oldest: r.oldest, Keepers: maps.Clone(r.keepers)}
	if r.header.Repair != nil {
		info.Was = r.header.Repair.Was
	}
	return info
}

// Step returns one step of the plan without waiting for it: io.EOF behind the end, a *Error for one that is not planned yet.
func (r *Run) Step(ctx context.Context, step uint64) (*Step, error) {
	r.mu.Lock()
	s, planned, ended := r.recent[step], r.planned, r.ended
	r.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case step < planned:
		return r.stored(ctx, step)
	case ended:
		return nil, io.EOF
	}
	return nil, notPlanned(step, planned)
}

// stored reads a step from the plan log, which may be out of reach.
func (r *Run) stored(ctx context.Context, step uint64) (*Step, error) {
	limit, cancel := context.WithTimeout(ctx, r.options.Stall)
	defer cancel()
	s, err := r.plan.step(limit, step)
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		return nil, &Error{Reason: PlanLogDown, Message: fmt.Sprintf("step %d could not be read from the plan log within %s", step, r.options.Stall),
			Do: "check the JetStream server; ask again", Err: err}
	}
	return s, err
}

func notPlanned(step, planned uint64) error {
	return &Error{Reason: StepNotPlanned, Message: fmt.Sprintf("step %d is not planned yet; the plan holds %d steps", step, planned),
		Do:    "ask for a step of the plan, or for the next one",
		Facts: map[string]string{"step": strconv.FormatUint(step, 10), "planned": strconv.FormatUint(planned, 10)}}
}

// Assemble returns rows [first, first+n) of a step as tokens.
func (r *Run) Assemble(ctx context.Context, s *Step, first, n int) (*Batch, error) {
	b, err := r.assembler.assemble(ctx, s, first, n)
	if err != nil {
		return nil, r.lost(s.Index, err)
	}
	return b, nil
}

// update changes what readers see and wakes them.
func (r *Run) update(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// publish makes a stored step readable.
func (r *Run) publish(s *Step) {
	r.update(func() {
		r.planned = s.Index + 1
		r.starving = time.Time{}
		r.recent[s.Index] = s
		delete(r.recent, s.Index-uint64(r.options.Ahead)-recentSteps)
	})
}

// recentSteps is how many steps beyond Options.Ahead are kept in memory; older ones are read from the plan log.
const recentSteps = 64

// Lookup returns the sequences of the documents that have a producer's id, in order.
func (r *Run) Lookup(ctx context.Context, id string) ([]uint64, error) {
	return r.edges.Documents.Lookup(ctx, id)
}

// Find calls f with every row of the plan that holds a part of a document, in order.
func (r *Run) Find(ctx context.Context, document uint64, f func(s *Step, row int, pieces []packonline.Piece) error) error {
	return Find(ctx, r.edges.Plan, document, f)
}

// Describe says where one document came from.
func (r *Run) Describe(ctx context.Context, sequence uint64) (DocumentInfo, error) {
	return r.edges.Documents.Describe(ctx, sequence)
}
