package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream"
	"loaderd/stream/messages"
)

// Letter is a dead letter as its stream holds it.
type Letter struct {
	Letter    uint64      // its sequence in the dead-letter stream
	Source    string      // of the document
	Stream    string      // that held the document ...
	Sequence  uint64      // ... under this sequence
	Subject   string      // of the document
	Reason    string      // stable name
	Problem   string      // a sentence
	Time      time.Time   // when the letter was stored
	Truncated []string    // what was left out: headers, payload
	Header    nats.Header // of the document
	Data      []byte      // its payload; nil if only headers are read
}

// ErrLetterNotFound means that a dead-letter stream does not have a sequence, or no longer has it.
var ErrLetterNotFound = errors.New("there is no such dead letter: the stream has dropped it, or never had it")

// Queue is the dead-letter stream of a document stream.
type Queue struct {
	Source string // of the documents
	store  *stream.Store
	stream jetstream.Stream
	// First and Last are the sequences of the letters that it held when it was opened. First is Last+1 for none.
	First, Last uint64
}

// ListQueues returns the dead-letter streams of a configuration: that of its document stream, and those of the sources.
// It is empty if none exists.
func ListQueues(ctx context.Context, s *stream.Store) (boxes []*Queue, err error) {
	c := s.Config()
	var names []string
	err = s.Retry(ctx, "list the streams of dead letters", func(ctx context.Context) error {
		names = nil
		list := s.JetStream().StreamNames(ctx, jetstream.WithStreamListSubject(c.DeadLetterSubject(c.Subject)+".>"))
		for name := range list.Name() {
			names = append(names, name)
		}
		return list.Err()
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		of := s
		if name != c.DeadLetterName() {
			source, below := strings.CutPrefix(strings.TrimSuffix(name, "_DLQ"), c.Name+"_")
			if of = s.Source(source, 1); !below || of.Config().DeadLetterName() != name {
				continue // of another configuration
			}
		}
		b, err := openQueue(ctx, of)
		if errors.Is(err, errNoQueue) {
			continue
		}
		if err != nil {
			return nil, err
		}
		boxes = append(boxes, b)
	}
	return boxes, nil
}

var errNoQueue = errors.New("there is no such stream of dead letters")

func openQueue(ctx context.Context, s *stream.Store) (*Queue, error) {
	name := s.Config().DeadLetterName()
	st, err := s.Find(ctx, "stream "+name, name, errNoQueue)
	if err != nil {
		return nil, err
	}
	state := st.CachedInfo().State
	return &Queue{Source: s.Config().Source, store: s, stream: st, First: max(state.FirstSeq, 1), Last: state.LastSeq}, nil
}

// Name returns the name of the stream.
func (b *Queue) Name() string { return b.store.Config().DeadLetterName() }

// Store returns the store of the letters' document stream.
func (b *Queue) Store() *stream.Store { return b.store }

// Documents returns the name of the letters' document stream.
func (b *Queue) Documents() string { return b.store.Config().Name }

// Each calls f with every letter, oldest first, without the headers and payload of its document. It stops when f
// returns false.
func (b *Queue) Each(ctx context.Context, f func(Letter) (more bool)) error {
	if b.First > b.Last {
		return nil
	}
	err := messages.EachHead(ctx, b.store.Client, b.stream, "", b.First, b.Last, func(m messages.Head) bool {
		return m.Sequence <= b.Last && f(b.parseLetter(m))
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", b.Name(), err)
	}
	return nil
}

// Get returns one letter with headers and payload. It returns ErrLetterNotFound if the stream does not have it.
func (b *Queue) Get(ctx context.Context, letter uint64) (l Letter, err error) {
	err = b.store.Retry(ctx, "read stream "+b.Name(), func(ctx context.Context) error {
		m, err := messages.Get(ctx, b.store.Client, b.stream, letter)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return ErrLetterNotFound
		}
		if err != nil {
			return err
		}
		l = b.parseLetter(messages.Head{Sequence: m.Sequence, Subject: m.Subject, Header: m.Header, Time: m.Time})
		l.Header, l.Data = documentHeaders(m.Header), m.Data
		return nil
	})
	if errors.Is(err, ErrLetterNotFound) {
		err = fmt.Errorf("letter %d of stream %s: %w", letter, b.Name(), ErrLetterNotFound)
	}
	return l, err
}

// parseLetter parses a letter from a message's headers. Everyone with permission to publish letters may write anything
// into them.
func (b *Queue) parseLetter(m messages.Head) Letter {
	h := m.Header
	sequence, _ := strconv.ParseUint(h.Get(HeaderOriginalSequence), 10, 64) // 0 if a foreign letter has none
	return Letter{Letter: m.Sequence, Source: b.Source, Stream: h.Get(HeaderOriginalStream), Sequence: sequence,
		Subject: h.Get(HeaderOriginalSubject),
		Reason:  parseReason(h.Get(HeaderReason)), Problem: h.Get(HeaderProblem), Time: m.Time,
		Truncated: h.Values(HeaderTruncated)}
}

// documentHeaders returns the document's headers from those of a letter.
func documentHeaders(letter nats.Header) nats.Header {
	out := nats.Header{}
	for k, v := range letter {
		if name, own := strings.CutPrefix(k, originalPrefix); own && name != "" {
			out[name] = v
		}
	}
	return out
}
