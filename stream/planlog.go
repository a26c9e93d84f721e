package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/loader"
)

const planStreamPrefix = "PLAN_"

// Errors of the plan log.
var (
	// ErrNoPlan says that a run has no plan: it never started here.
	ErrNoPlan = errors.New("there is no plan of this run")
	// ErrNoRecord says that a position is behind the end of the log.
	ErrNoRecord = errors.New("there is no record at this position")
)

// PlanLog is the plan of one run: a stream of its own whose sequences are the positions 1, 2, 3, ...
//
// Invariants, kept by the stream's settings and by Append:
//
//	L1  a record is never changed or removed (DenyDelete, DenyPurge, DiscardNew, no limit but bytes);
//	L2  a record is stored only behind the position that its writer saw last (compare and set), so of two writers one stops.
type PlanLog struct {
	store    *Store
	stream   jetstream.Stream
	name     string
	subject  string
	readOnly bool
}

var _ loader.PlanLog = (*PlanLog)(nil)

// ValidRun says whether a name can name a run.
func ValidRun(run string) error {
	if !streamName.MatchString(run) {
		return fmt.Errorf("run name %q: want 1 to 64 letters, digits, - and _", run)
	}
	return nil
}

// PlanLog opens the plan of a run for writing and creates it when it is absent.
func (s *Store) PlanLog(ctx context.Context, run string) (*PlanLog, error) {
	if err := ValidRun(run); err != nil {
		return nil, err
	}
	st, err := s.ensure(ctx, s.config.planStream(run))
	if err != nil {
		return nil, err
	}
	return s.openPlan(ctx, run, st, false)
}

// ReadLog opens the plan of a run for reading. It creates nothing: without a plan it returns ErrNoPlan.
func (s *Store) ReadLog(ctx context.Context, run string) (*PlanLog, error) {
	if err := ValidRun(run); err != nil {
		return nil, err
	}
	var st jetstream.Stream
	err := s.retry(ctx, "open plan of run "+run, func(ctx context.Context) (err error) {
		st, err = s.js.Stream(ctx, planStreamPrefix+run)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s%s: %w", planStreamPrefix, run, ErrNoPlan)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.openPlan(ctx, run, st, true)
}

func (s *Store) openPlan(ctx context.Context, run string, st jetstream.Stream, readOnly bool) (*PlanLog, error) {
	l := &PlanLog{store: s, stream: st, name: planStreamPrefix + run, subject: planSubject + "." + run, readOnly: readOnly}
	if _, err := l.Last(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Last returns the position of the last record, 0 for an empty log. A log with holes is an error: positions would mean nothing.
func (l *PlanLog) Last(ctx context.Context) (uint64, error) {
	var state jetstream.StreamState
	err := l.store.retry(ctx, "read end of "+l.name, func(ctx context.Context) error {
		info, err := l.stream.Info(ctx)
		if err == nil {
			state = info.State
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if state.Msgs != state.LastSeq {
		return 0, fmt.Errorf("read end of %s: it holds %d records, from %d to %d: some are gone, so the run cannot be continued or replayed",
			l.name, state.Msgs, state.FirstSeq, state.LastSeq)
	}
	return state.LastSeq, nil
}

// Get returns the record at a position, ErrNoRecord behind the end.
func (l *PlanLog) Get(ctx context.Context, position uint64) ([]byte, error) {
	m, err := l.message(ctx, position)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

func (l *PlanLog) message(ctx context.Context, position uint64) (*jetstream.RawStreamMsg, error) {
	if position == 0 {
		return nil, fmt.Errorf("read %s at 0: %w: positions start at 1", l.name, ErrNoRecord)
	}
	var m *jetstream.RawStreamMsg
	err := l.store.retry(ctx, fmt.Sprintf("read %s at %d", l.name, position), func(ctx context.Context) (err error) {
		m, err = l.stream.GetMsg(ctx, position)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return ErrNoRecord
		}
		return err
	})
	return m, err
}

// scanBytes is how much of the log is on its way to a Scan at a time; no less than the largest record.
const scanBytes = MaxDocumentLimit + 2*headerRoom

// Scan calls f with every record from position from to the last one of the moment, in order. A lost connection is waited for.
func (l *PlanLog) Scan(ctx context.Context, from uint64, f func(position uint64, record []byte) error) error {
	last, err := l.Last(ctx)
	if err != nil {
		return err
	}
	next := max(from, 1)
	if next > last {
		return nil
	}
	var failed error // by f: final
	err = l.store.retry(ctx, fmt.Sprintf("scan %s to %d", l.name, last), func(context.Context) error {
		var err error
		next, err = l.scan(ctx, next, last, func(position uint64, record []byte) error {
			failed = f(position, record)
			return failed
		})
		if failed != nil {
			return nil
		}
		return err
	})
	return errors.Join(err, failed)
}

// scan reads until last or an error and returns the first position that f has not been given.
func (l *PlanLog) scan(ctx context.Context, next, last uint64, f func(uint64, []byte) error) (uint64, error) {
	consumer, err := l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   next,
	})
	if err != nil {
		return next, err
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(scanBytes))
	if err != nil {
		return next, err
	}
	defer messages.Stop()
	for next <= last {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return next, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return next, err
		}
		if meta.Sequence.Stream != next {
			return next, fmt.Errorf("records %d to %d are missing", next, meta.Sequence.Stream-1)
		}
		next++
		if err := f(meta.Sequence.Stream, m.Data()); err != nil {
			return next, err
		}
	}
	return next, nil
}

// MaxRecord is the largest record in bytes that Append takes.
func (l *PlanLog) MaxRecord() int {
	return max(min(int(l.store.nc.MaxPayload()), MaxDocumentLimit+headerRoom)-headerRoom, 1)
}

// equal says whether the log holds exactly records behind position last.
func (l *PlanLog) equal(ctx context.Context, last uint64, records [][]byte) (bool, error) {
	for i, r := range records {
		m, err := l.message(ctx, last+1+uint64(i))
		if err != nil {
			return false, err
		}
		if !bytes.Equal(m.Data, r) {
			return false, nil
		}
	}
	return true, nil
}

// header returns one header of the record at a position.
func (l *PlanLog) header(ctx context.Context, position uint64, key string) (string, error) {
	m, err := l.message(ctx, position)
	if err != nil {
		return "", err
	}
	return nats.Header(m.Header).Get(key), nil
}
