package retention

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/casvalue"
	"loaderd/stream/messages"
)

// readers lists the runs over a document stream as they are reported to producers, in the account of the documents.
// It is advisory, and may lag behind the low watermarks.
type readers struct {
	Runs map[string]readerState `json:"runs"`
}

// Check implements casvalue.Checked.
func (r readers) Check() error {
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

type readerState struct {
	Sealed bool   `json:"sealed"`
	End    uint64 `json:"end"` // of a sealed run, the last document that it reads
}

// readersDescription is the description of the bucket.
const readersDescription = "the runs that read a document stream, for its publishers"

func openReaders(ctx context.Context, documents *stream.Store, key string) (*casvalue.Value[readers], error) {
	return casvalue.Open[readers](ctx, documents, stream.ReadersBucket, readersDescription, key,
		"which runs read stream "+documents.Config().Name)
}

// NotifyProducers reports to producers which runs read the document stream, and where the sealed ones end.
func (f *LowWatermarks) NotifyProducers(ctx context.Context) error {
	return writeReaders(ctx, f.docs, f.readers)
}

func writeReaders(ctx context.Context, s *stream.Store, c *casvalue.Value[readers]) error {
	now, err := findReaders(ctx, s.Own(), c.Key())
	if err != nil {
		return err
	}
	_, err = c.Update(ctx, func(is readers) (readers, error) {
		if maps.Equal(is.Runs, now.Runs) {
			return is, errUnchanged
		}
		return now, nil
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// ReportReaders is Tell for a process that has opened no low watermark.
func ReportReaders(ctx context.Context, s *stream.Store) error {
	documents, err := s.Find(ctx, "the document stream", s.Config().Name, errNoDocuments)
	if err != nil {
		return err
	}
	c, err := openReaders(ctx, s, valueKey(documents.CachedInfo()))
	if err != nil {
		return err
	}
	return writeReaders(ctx, s, c)
}

// findReaders returns the runs over a document stream by their low watermarks. A run whose plan was deleted, or created
// again, is left out.
func findReaders(ctx context.Context, own *stream.Store, key string) (readers, error) {
	out := readers{map[string]readerState{}}
	value, err := casvalue.ReadKey(ctx, own, Bucket, key)
	if err != nil || len(value) == 0 {
		return out, err
	}
	all, err := casvalue.Decode[watermarks](value)
	if err != nil {
		return out, fmt.Errorf("key %s of bucket %s: %w", key, Bucket, err)
	}
	for run, w := range all.Value.Runs {
		plan, err := own.JetStream().Stream(ctx, own.Config().PlanStream(run).Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return out, err
		}
		if stream.Created(plan.CachedInfo()).UnixNano() == w.Plan {
			out.Runs[run] = readerState{w.Sealed, w.End}
		}
	}
	return out, nil
}

var (
	errUnchanged   = errors.New("it is so already")
	errNoDocuments = errors.New("there is no document stream")
)

// Readers returns the runs that read the document stream, in the order of their names, as reported to producers.
func Readers(ctx context.Context, s *stream.Store) ([]ReadingRun, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	documents, err := s.JetStream().Stream(ctx, s.Config().Name)
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	behind, subject := casvalue.KeyAddress(stream.ReadersBucket, valueKey(documents.CachedInfo()))
	m, err := messages.GetLast(ctx, s.Client, behind, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask which runs read stream %s: %w", s.Config().Name, err)
	}
	told, err := casvalue.Decode[readers](m.Data)
	if err != nil {
		return nil, fmt.Errorf("read which runs read stream %s: %w", s.Config().Name, err)
	}
	return told.Value.sortedRuns(), nil
}
