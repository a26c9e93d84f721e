package runadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/checkpoints"
	"loaderd/stream/lease"
	"loaderd/stream/planlog"
	"loaderd/stream/publish"
	"loaderd/stream/runstate"
	"loaderd/stream/streamcopy"
)

// Migration copies the runs over a document stream, and the stream itself, to other servers, where they continue
// unchanged: sequences, times, headers and ids are the same, and so are the creation times of the streams.
//
// What a kill leaves, and what the same migration does when it is called again:
//
//	after the first stream    copies marked as unfinished         complete ones are kept, the rest are created again
//	after the keys            the same, and keys                  the keys are written again
//	after some marks          the document stream still marked    all is compared again, and the other marks are removed
//	after the last mark       a finished migration                it is refused, because the streams exist
type Migration struct {
	From, To *stream.Store
	Run      string // only this run; empty for all runs
	Self     lease.LeaderInfo
	// Progress is called with a description of the work, the amount done and the total, in bytes or messages.
	Progress func(what string, done, of int64)

	streams []StreamCopy
	runs    []string
}

// MigrationReport describes what a migration has copied or would copy.
type MigrationReport struct {
	Runs    []string     `json:"runs"`
	Streams []StreamCopy `json:"streams"`
	Records int          `json:"records"` // commits of publishers
}

// StreamCopy is a stream to copy.
type StreamCopy struct {
	Stream   string `json:"stream"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	// Copied reports whether the servers have a complete copy from an interrupted migration.
	Copied bool `json:"there"`

	created time.Time
}

// ErrStreamExists reports that the servers have a stream that a migration would create, and that it is not an
// unfinished copy.
var ErrStreamExists = errors.New("there is such a stream already")

// Inspect determines what has to be copied, and whether it can be. It changes nothing.
func (m *Migration) Inspect(ctx context.Context) (MigrationReport, error) {
	var out MigrationReport
	kept, err := runstate.List(ctx, m.From)
	if err != nil {
		return out, err
	}
	if err := m.addStream(ctx, m.From.Config().Name, true); err != nil {
		return out, err
	}
	if err := m.addStream(ctx, m.From.Config().DeadLetterName(), false); err != nil {
		return out, err
	}
	for _, k := range kept {
		if m.Run != "" && k.Name != m.Run {
			continue
		}
		if err := m.addRun(ctx, k); err != nil {
			return out, err
		}
	}
	if m.Run != "" && len(m.runs) == 0 {
		return out, fmt.Errorf("run %s over document stream %s: %w: loaderd run list lists those that there are", m.Run,
			m.From.Config().Name, planlog.ErrNoPlan)
	}
	if err := m.checkTarget(ctx); err != nil {
		return out, err
	}
	return MigrationReport{Runs: m.runs, Streams: slices.Clone(m.streams)}, nil
}

// addRun adds a run to the migration if it is over the document stream and has begun.
func (m *Migration) addRun(ctx context.Context, k runstate.Run) error {
	listed, err := describeRun(ctx, m.From, k, nil)
	if err != nil {
		return err
	}
	switch {
	case listed.State == Remainder, listed.State == NotBegun:
		return nil
	case listed.State == Unreadable:
		return fmt.Errorf(
			"run %s cannot be read: %s: repair it (loaderd run repair), or name the runs to copy one by one (--run)",
			k.Name, listed.Problem)
	case len(listed.Sources) != 1 || listed.Sources[0].Stream != m.From.Config().Name:
		return nil
	case listed.Leader != nil && listed.Leader.Responds:
		return &lease.HeldError{Run: k.Name, Leader: listed.Leader.LeaderInfo}
	}
	m.runs = append(m.runs, k.Name)
	if err := m.addStream(ctx, checkpoints.StreamName(k.Name), false); err != nil {
		return err
	}
	return m.addStream(ctx, m.From.Config().PlanStream(k.Name).Name, true)
}

// addStream adds a stream to the migration.
func (m *Migration) addStream(ctx context.Context, name string, needed bool) error {
	info, err := streamInfo(ctx, m.From.ForStream(name), name)
	if errors.Is(err, errNoStream) && !needed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what is to be copied: %w", err)
	}
	m.streams = append(m.streams, StreamCopy{Stream: name, Messages: info.State.Msgs, Bytes: info.State.Bytes,
		First: firstSequence(info),
		Last:  info.State.LastSeq, created: stream.Created(info)})
	return nil
}

var errNoStream = errors.New("there is no such stream")

func streamInfo(ctx context.Context, s *stream.Store, name string) (*jetstream.StreamInfo, error) {
	st, err := s.Find(ctx, "stream "+name, name, errNoStream)
	if err != nil {
		return nil, err
	}
	return st.CachedInfo(), nil
}

// checkTarget determines which of the streams the other servers have. The mark of the document stream, which is
// removed last, shows whether they are from an interrupted migration.
func (m *Migration) checkTarget(ctx context.Context) error {
	unfinished := false
	for i := range m.streams {
		s := &m.streams[i]
		info, err := streamInfo(ctx, m.To.ForStream(s.Stream), s.Stream)
		if errors.Is(err, errNoStream) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for copies: %w", err)
		}
		marked := stream.IsCopyOf(info, s.created)
		if i == 0 {
			unfinished = marked
		}
		s.Copied = info.State.Msgs == s.Messages && firstSequence(info) == s.First && info.State.LastSeq == s.Last &&
			stream.Created(info).Equal(s.created)
		if !unfinished || !marked && !s.Copied {
			return fmt.Errorf("stream %s at %s: %w, and it is no unfinished copy: copy to servers without it, or remove the "+
				"run (loaderd run delete) and the stream there",
				s.Stream, m.To.ClientURL(), ErrStreamExists)
		}
	}
	return nil
}

// Execute copies everything that Look found, compares every message, and finishes the copies.
func (m *Migration) Execute(ctx context.Context) (done MigrationReport, err error) {
	if done, err = m.Inspect(ctx); err != nil {
		return done, err
	}
	for _, run := range m.runs { // so that no daemon leads it meanwhile
		elector, err := runstate.NewElector(ctx, m.From, run, m.Self)
		if err != nil {
			return done, err
		}
		defer elector.Close() //nolint:errcheck // fails only on a closed connection
		held, err := elector.TryAcquire(ctx)
		if err != nil {
			return done, err
		}
		defer held.Close() //nolint:errcheck // the lease times out
	}
	for _, s := range m.streams {
		if err := m.copyStream(ctx, s); err != nil {
			return done, err
		}
		if err := m.To.ForStream(s.Stream).ReplicateCopy(ctx, s.Stream); err != nil {
			return done, err
		}
	}
	for _, run := range m.runs {
		if err := runstate.Copy(ctx, m.From, m.To, run); err != nil {
			return done, fmt.Errorf("copy the low watermark and the checkpoints of run %s: %w", run, err)
		}
	}
	if done.Records, err = publish.CopyRecords(ctx, m.From, m.To); err != nil {
		return done, fmt.Errorf("copy the records of publishers: %w", err)
	}
	for _, s := range m.streams {
		if err := m.compareStream(ctx, s); err != nil {
			return done, err
		}
	}
	for _, s := range slices.Backward(m.streams) {
		if err := m.To.ForStream(s.Stream).FinishCopy(ctx, s.Stream); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (m *Migration) copyStream(ctx context.Context, s StreamCopy) error {
	if s.Copied {
		return nil
	}
	bytes := int64(0)
	return m.To.ForStream(s.Stream).CopyStream(ctx, m.From.ForStream(s.Stream), s.Stream, s.created, func(n int) {
		bytes += int64(n)
		m.Progress("copy "+s.Stream, bytes, int64(s.Bytes))
	})
}

// compareStream compares a stream with its copy. It returns an error if the stream has changed since the copy began.
func (m *Migration) compareStream(ctx context.Context, s StreamCopy) error {
	for _, side := range []*stream.Store{m.From, m.To} {
		info, err := streamInfo(ctx, side.ForStream(s.Stream), s.Stream)
		if err != nil {
			return err
		}
		is := StreamCopy{Stream: s.Stream, Messages: info.State.Msgs, Bytes: s.Bytes, First: firstSequence(info),
			Last: info.State.LastSeq, Copied: s.Copied,
			created: stream.Created(info)}
		if is.created = is.created.UTC(); !is.created.Equal(s.created) || is.Messages != s.Messages || is.First != s.First ||
			is.Last != s.Last {
			return fmt.Errorf("stream %s at %s has changed meanwhile: it holds %d messages from %d to %d, and held %d from "+
				"%d to %d: stop who publishes, and begin again",
				s.Stream, side.ClientURL(), is.Messages, is.First, is.Last, s.Messages, s.First, s.Last)
		}
	}
	n, err := streamcopy.Compare(ctx, m.From.ForStream(s.Stream).Client, m.To.ForStream(s.Stream).Client, s.Stream,
		s.First, s.Last,
		func(sequence uint64) {
			m.Progress("compare "+s.Stream, int64(sequence-s.First+1), int64(s.Last-s.First+1))
		})
	if err == nil && n != s.Messages {
		err = fmt.Errorf("compared %d of %d messages of stream %s", n, s.Messages, s.Stream)
	}
	return err
}

// firstSequence returns a stream's first sequence. Servers report 0 or 1 for an empty stream.
func firstSequence(info *jetstream.StreamInfo) uint64 { return max(info.State.FirstSeq, 1) }
