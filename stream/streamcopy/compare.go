package streamcopy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/conn"
	"loaderd/stream/messages"
)

// Messages are compared by ranges of this many sequences, and a range in parts of this many bytes.
const (
	compareSequences = 256
	compareBytes     = 4 << 20
)

// Compare reads sequences first to last of a stream and of its copy on other servers, and returns how many messages
// both have there. A difference is an error. A lagging server of a cluster gets time to catch up. progress is called
// with the last sequence compared.
func Compare(ctx context.Context, from, to *conn.Client, name string, first, last uint64,
	progress func(sequence uint64)) (n uint64, err error) {
	for first <= last {
		var original []*jetstream.RawStreamMsg
		var next uint64
		err := from.Retry(ctx, "read stream "+name, func(ctx context.Context) (err error) {
			original, next, err = messages.GetRange(ctx, from, name, first, min(last, first+compareSequences-1), compareBytes)
			return err
		})
		if err != nil {
			return n, err
		}
		until := min(max(next, first+1)-1, last, first+compareSequences-1) // a gap is skipped in one step
		if err := compareRange(ctx, to, name, original, first, until); err != nil {
			return n, err
		}
		n += uint64(len(original))
		first = until + 1
		progress(until)
	}
	return n, nil
}

// compareRange compares what a copy has at sequences first to last.
func compareRange(ctx context.Context, c *conn.Client, name string, original []*jetstream.RawStreamMsg, first,
	last uint64) error {
	wait, began := c.Backoff(), time.Now()
	for {
		copied, err := readRange(ctx, c, name, first, last)
		if err == nil {
			err = compareMessages(name, original, copied)
		}
		if err == nil || time.Since(began) > compareTimeout {
			return err
		}
		if err := c.Pause(ctx, wait.NextBackOff(), err); err != nil {
			return err
		}
	}
}

// compareTimeout is how long a copy may take to show what is in the original. Any server of a cluster responds, and a
// lagging one must first catch up.
const compareTimeout = 30 * time.Second

func readRange(ctx context.Context, c *conn.Client, name string, first,
	last uint64) (all []*jetstream.RawStreamMsg, err error) {
	for first <= last {
		found, next, err := messages.GetRange(ctx, c, name, first, last, compareBytes)
		if err != nil {
			return nil, fmt.Errorf("read the copy of stream %s: %w", name, err)
		}
		all = append(all, found...)
		first = max(next, first+1)
	}
	return all, nil
}

func compareMessages(name string, original, copied []*jetstream.RawStreamMsg) error {
	if len(original) != len(copied) {
		return fmt.Errorf("the copy of stream %s has %d messages where the original has %d", name, len(copied), len(original))
	}
	for i, o := range original {
		c := copied[i]
		if o.Sequence != c.Sequence || o.Subject != c.Subject || !o.Time.Equal(c.Time) || !bytes.Equal(o.Data, c.Data) ||
			!sameHeaders(o.Header, c.Header) {
			return fmt.Errorf("the copy of stream %s has another message at sequence %d than the original at %d", name,
				c.Sequence, o.Sequence)
		}
	}
	return nil
}

// sameHeaders compares the headers of two messages without those that a response adds.
func sameHeaders(a, b nats.Header) bool {
	return maps.EqualFunc(producerHeaders(a), producerHeaders(b), slices.Equal[[]string])
}

func producerHeaders(h nats.Header) nats.Header {
	own := maps.Clone(h)
	maps.DeleteFunc(own, func(name string, _ []string) bool {
		return messages.IsDirectGetHeader(name) || name == "Nats-Num-Pending" || name == "Nats-UpTo-Sequence"
	})
	return own
}
