package planlog

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
)

// readers are the runs over a document stream as producers are told of them: beside the documents, where producers may look. It is advice, and may be
// behind. The floors say what counts.
type readers struct {
	Runs map[string]reader `json:"runs"`
}

func (r readers) check() error {
	for run, is := range r.Runs {
		if err := stream.ValidRun(run); err != nil {
			return err
		}
		if is.End > maxSequence {
			return fmt.Errorf("run %s ends behind document %d", run, is.End)
		}
	}
	return nil
}

type reader struct {
	Sealed bool   `json:"sealed"`
	End    uint64 `json:"end"` // of a sealed run, the last document that it reads
}

// readersAbout is the description of the bucket.
const readersAbout = "which runs read a document stream, for those who publish to it"

func openReaders(ctx context.Context, documents *stream.Store, key string) (*cell[readers], error) {
	return openCell[readers](ctx, documents, stream.ReadersBucket, readersAbout, key,
		"which runs read stream "+documents.Config().Name)
}

// Tell tells producers which runs read the document stream, and where those end that are sealed.
func (f *Floors) Tell(ctx context.Context) error { return tell(ctx, f.docs, f.readers) }

func tell(ctx context.Context, s *stream.Store, c *cell[readers]) error {
	now, err := reading(ctx, s.Own(), c.key)
	if err != nil {
		return err
	}
	_, err = c.update(ctx, func(is readers) (readers, error) {
		if maps.Equal(is.Runs, now.Runs) {
			return is, errSame
		}
		return now, nil
	})
	if errors.Is(err, errSame) {
		return nil
	}
	return err
}

// tellAll is Tell for who has no floors open.
func tellAll(ctx context.Context, s *stream.Store) error {
	documents, err := s.Find(ctx, "the document stream", s.Config().Name, errNoDocuments)
	if err != nil {
		return err
	}
	c, err := openReaders(ctx, s, floorsKey(documents.CachedInfo()))
	if err != nil {
		return err
	}
	return tell(ctx, s, c)
}

// reading finds the runs over a document stream by their floors. One whose plan is gone, or was made again, reads nothing.
func reading(ctx context.Context, own *stream.Store, key string) (readers, error) {
	out := readers{map[string]reader{}}
	value, err := lastValue(ctx, own, floorsBucket, key)
	if err != nil || len(value) == 0 {
		return out, err
	}
	all, err := decodeCell[floors](value)
	if err != nil {
		return out, fmt.Errorf("key %s of bucket %s: %w", key, floorsBucket, err)
	}
	for run, floor := range all.Value.Runs {
		plan, err := own.JetStream().Stream(ctx, own.Config().PlanStream(run).Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return out, err
		}
		if stream.Created(plan.CachedInfo()).UnixNano() == floor.Plan {
			out.Runs[run] = reader{floor.Sealed, floor.End}
		}
	}
	return out, nil
}

var (
	errSame        = errors.New("it is so already")
	errNoDocuments = errors.New("there is no document stream")
)

// Readers returns the runs that read the document stream, in the order of their names, as producers are told.
func Readers(ctx context.Context, s *stream.Store) ([]Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, runsWithin)
	defer cancel()
	documents, err := s.JetStream().Stream(ctx, s.Config().Name)
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	behind, subject := keyAt(stream.ReadersBucket, floorsKey(documents.CachedInfo()))
	m, err := s.GetLast(ctx, behind, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	told, err := decodeCell[readers](m.Data)
	if err != nil {
		return nil, fmt.Errorf("read which runs read stream %s: %w", s.Config().Name, err)
	}
	return told.Value.list(), nil
}
