// Package planlog stores the plan of a run: an append-only log of steps and control records in a JetStream stream.
package planlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader/backend"
	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/conn"
	"loaderd/stream/mac"
	"loaderd/stream/messages"
)

// Errors of the plan log.
var (
	// ErrNoPlan reports that a run has no plan, because it never started here.
	ErrNoPlan = errors.New("there is no plan of this run")
	// ErrNoRecord reports a position after the end of the log.
	ErrNoRecord = errors.New("there is no record at this position")
)

// Log is the plan of one run: a separate stream whose sequences are the positions 1, 2, 3, ...
//
// Invariants, ensured by the stream's settings and by Append:
//
//	L1  a record is never changed or removed (DenyDelete, DenyPurge, DiscardNew, no limit but bytes);
//	L2  a record is stored only after the last position that its writer read (compare-and-set): one of two stops.
type Log struct {
	store     *stream.Store // the plan's
	docs      *stream.Store // the documents'
	stream    jetstream.Stream
	run       string
	name      string
	subject   string
	created   time.Time // of the stream
	readOnly  bool
	allowGaps bool // records may be missing; the remaining ones are readable
	keys      mac.Keyring
	binding   atomic.Pointer[macBinding] // once it has been read
	knownEnd  atomic.Uint64              // an end that a server has reported; a server with an earlier end lags
}

var _ backend.PlanLog = (*Log)(nil)

// Open opens the plan of a run for writing and creates it if it does not exist.
func Open(ctx context.Context, s *stream.Store, run string) (*Log, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	st, err := s.Own().Ensure(ctx, s.Config().PlanStream(run))
	if err != nil {
		return nil, err
	}
	l := newLog(s, st, run)
	return l, l.checkGaps(ctx)
}

// OpenReadOnly opens the plan of a run for reading. It creates nothing and returns ErrNoPlan if no plan exists.
func OpenReadOnly(ctx context.Context, s *stream.Store, run string) (*Log, error) {
	l, err := findPlan(ctx, s, run)
	if err != nil {
		return nil, err
	}
	return l, l.checkGaps(ctx)
}

// OpenExisting is OpenReadOnly with a single request. It also returns ErrNoPlan if a cluster's server has not received
// the plan's stream yet.
func OpenExisting(ctx context.Context, s *stream.Store, run string) (*Log, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	name := s.Config().PlanStream(run).Name
	var st jetstream.Stream
	err := s.Own().Retry(ctx, "open plan of run "+run, func(ctx context.Context) (err error) {
		if st, err = s.Own().JetStream().Stream(ctx, name); errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", name, ErrNoPlan)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return newReadOnlyLog(s, st, run), nil
}

// OpenDamaged opens the plan of a run for reading, however damaged it is. A missing record within it is ErrNoRecord.
func OpenDamaged(ctx context.Context, s *stream.Store, run string) (*Log, error) {
	l, err := findPlan(ctx, s, run)
	if err == nil {
		l.allowGaps = true
	}
	return l, err
}

// findPlan opens the plan of a run for reading, if it exists.
func findPlan(ctx context.Context, s *stream.Store, run string) (*Log, error) {
	if err := stream.ValidRun(run); err != nil {
		return nil, err
	}
	st, err := s.Own().Find(ctx, "plan of run "+run, s.Config().PlanStream(run).Name, ErrNoPlan)
	if err != nil {
		return nil, err
	}
	return newReadOnlyLog(s, st, run), nil
}

func newReadOnlyLog(s *stream.Store, st jetstream.Stream, run string) *Log {
	l := newLog(s, st, run)
	l.readOnly = true
	return l
}

func newLog(s *stream.Store, st jetstream.Stream, run string) *Log {
	info := st.CachedInfo()
	return &Log{store: s.Own(), docs: s, stream: st, run: run, name: info.Config.Name, subject: info.Config.Subjects[0],
		created: stream.Created(info),
		keys:    s.PlanKeys()}
}

// Store returns the store of the plan's stream.
func (l *Log) Store() *stream.Store { return l.store }

// Documents returns the store of the document stream.
func (l *Log) Documents() *stream.Store { return l.docs }

// Run returns the name of the run.
func (l *Log) Run() string { return l.run }

// Fence returns the fence of a term of this plan.
func (l *Log) Fence(term uint64) casvalue.Fence {
	return casvalue.Fence{Plan: l.created.UnixNano(), Term: term}
}

// checkGaps returns an error if the log cannot be used because it has holes.
func (l *Log) checkGaps(ctx context.Context) error {
	_, err := l.Last(ctx)
	return err
}

// Last returns the position of the last record, 0 for an empty log. It returns an error for a log with holes, whose
// positions would be meaningless.
func (l *Log) Last(ctx context.Context) (uint64, error) {
	var state jetstream.StreamState
	began := time.Now()
	err := l.store.Retry(ctx, "read end of "+l.name, func(ctx context.Context) error {
		info, err := l.stream.Info(ctx)
		if err == nil {
			state = info.State
		}
		return l.store.AsTransientAbsence(began, err)
	})
	if err != nil {
		return 0, err
	}
	if state.Msgs != state.LastSeq && !l.allowGaps {
		return 0, fmt.Errorf("read end of %s: it holds %d records, from %d to %d: some are gone, so the run cannot be "+
			"continued or replayed; loaderd run repair copies the records before the first of them to a usable plan",
			l.name, state.Msgs, state.FirstSeq, state.LastSeq)
	}
	l.observeEnd(state.LastSeq)
	return state.LastSeq, nil
}

// observeEnd records a lower bound of the log's end.
func (l *Log) observeEnd(end uint64) {
	for {
		known := l.knownEnd.Load()
		if end <= known || l.knownEnd.CompareAndSwap(known, end) {
			return
		}
	}
}

// Get returns the record at a position, and ErrNoRecord after the end.
func (l *Log) Get(ctx context.Context, position uint64) ([]byte, error) {
	m, err := l.readMessage(ctx, position)
	if err != nil {
		return nil, err
	}
	return m.Data, l.verifyRecord(ctx, position, m.Data, m.Header.Get(mac.Header))
}

func (l *Log) readMessage(ctx context.Context, position uint64) (*jetstream.RawStreamMsg, error) {
	if position == 0 {
		return nil, fmt.Errorf("read %s at 0: %w: positions start at 1", l.name, ErrNoRecord)
	}
	var m *jetstream.RawStreamMsg
	began := time.Now()
	err := l.store.RetryWithin(ctx, messages.GetTimeout, fmt.Sprintf("read %s at %d", l.name, position),
		func(ctx context.Context) (err error) {
			m, err = messages.Get(ctx, l.store.Client, l.stream, position)
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return err
			}
			if l.allowGaps {
				return ErrNoRecord
			}
			info, err := l.stream.Info(ctx)
			if err == nil && (position <= info.State.LastSeq || position <= l.knownEnd.Load() && l.mayBeLagging(began)) {
				err = conn.ErrReplicaLagging
			} else if err == nil {
				err = ErrNoRecord
			}
			return err
		})
	return m, err
}

// Scan calls f with every record from position from to the log's end at the time of the call, in order. If the
// connection is lost, Scan waits for it.
func (l *Log) Scan(ctx context.Context, from uint64, f func(position uint64, record []byte) error) error {
	last, err := l.Last(ctx)
	if err != nil {
		return err
	}
	if last > 0 {
		if _, err := l.readBinding(ctx); err != nil {
			return err
		}
	}
	for next := max(from, 1); next <= last; {
		var records [][]byte
		var codes []string
		err := l.store.Retry(ctx, fmt.Sprintf("scan %s at %d", l.name, next), func(ctx context.Context) (err error) {
			records, codes, err = l.readRange(ctx, next, last)
			return err
		})
		if err != nil {
			return err
		}
		for i, r := range records {
			if len(l.keys) > 0 {
				if err := l.verifyRecord(ctx, next, r, codes[i]); err != nil {
					return err
				}
			}
			if err := f(next, r); err != nil {
				return err
			}
			next++
		}
	}
	return nil
}

// readRange returns records from position next to last, as many as one response contains, and with plan keys their
// MACs.
func (l *Log) readRange(ctx context.Context, next, last uint64) (records [][]byte, codes []string, err error) {
	n := min(last-next+1, fetchRecords)
	if len(l.keys) == 0 {
		records, err = messages.GetBatch(ctx, l.store.Client, l.name, next, n, fetchBytes)
		return records, nil, err
	}
	found, _, err := messages.GetRange(ctx, l.store.Client, l.name, next, next+n-1, fetchBytes)
	if err != nil {
		return nil, nil, err
	}
	for i, m := range found {
		if m.Sequence != next+uint64(i) {
			break
		}
		records, codes = append(records, m.Data), append(codes, m.Header.Get(mac.Header))
	}
	if len(records) == 0 {
		err = conn.ErrReplicaLagging
	}
	return records, codes, err
}

// A fetch returns at most this many records, and none after this many bytes.
const (
	fetchRecords = 8192
	fetchBytes   = 8 << 20
)

// MaxRecord returns the size in bytes of the largest record that Append accepts.
func (l *Log) MaxRecord() int {
	return max(min(int(l.store.Conn().MaxPayload()), stream.MaxDocumentLimit+stream.HeaderRoom)-stream.HeaderRoom, 1)
}

// hasRecords reports whether the log contains exactly records after position last.
func (l *Log) hasRecords(ctx context.Context, last uint64, records [][]byte) (bool, error) {
	for i, r := range records {
		m, err := l.readMessage(ctx, last+1+uint64(i))
		if err != nil {
			return false, err
		}
		if !bytes.Equal(m.Data, r) {
			return false, nil
		}
	}
	return true, nil
}

// recordHeader returns one header of the record at a position.
func (l *Log) recordHeader(ctx context.Context, position uint64, key string) (string, error) {
	m, err := l.readMessage(ctx, position)
	if err != nil {
		return "", err
	}
	return m.Header.Get(key), nil
}
