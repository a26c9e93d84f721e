package document

import (
	"context"
	"time"

	"loaderd/loader/plan"
)

// Document is one message of the document stream, as the Source hands it over. Every sequence of the stream yields
// exactly one Document, those that are not used too, so that the planner's cursor covers the whole log.
type Document struct {
	Source   int       // number of the source that it comes from; set by the run
	Sequence uint64    // in the document stream
	ID       uint64    // hash of the producer's id of the document; 0 when it has none
	Skip     plan.Skip // why the document is not used; empty for one that is
	Cut      bool      // it had more tokens, which the run's configuration leaves out
	Content            // owned by the receiver, never changed
	plan.PackingHints
	// Parts are the documents of a message with several, whose tokens follow one another in Content; then ID, Loss and
	// PackingHints are theirs.
	Parts []plan.Part
}

// Documents returns the documents of the message: one, or those that it holds.
func (d Document) Documents() []plan.Part { return d.Arrival().Documents() }

// Arrival is what the planner is told of the document.
func (d Document) Arrival() plan.Arrival {
	return plan.Arrival{Source: d.Source, Sequence: d.Sequence, ID: d.ID, Length: d.Len(), Skip: d.Skip, Loss: d.Loss,
		Cut: d.Cut, PackingHints: d.PackingHints, Parts: d.Parts}
}

// Chunk is a few consecutive documents of a source.
type Chunk struct {
	Ready     <-chan struct{} // closed when Documents or Err is set
	Documents []Document      // at least one
	Err       error           // why no document follows; then the chunk has none, and it is the last one
}

// Source reads the documents of the stream in order. It retries what can be retried.
type Source interface {
	// Chunks returns the queue of the chunks in order. A chunk may leave it before it is ready, so that its receiver
	// can wait for something else as well. The queue is never closed; after Close nothing is to be received from it.
	Chunks() <-chan *Chunk
	// Deliver releases the oldest chunk that was received: the receiver is done with its documents. Until then they
	// count against the bound of the source's memory.
	Deliver()
	// Status says how far the source is, for stall causes and metrics.
	Status() SourceStatus
	Close() error
}

// SourceStatus is a source's position. All sequences are of the document stream.
type SourceStatus struct {
	Last      uint64 `json:"last"`      // last sequence known to be in the stream
	Fetched   uint64 `json:"fetched"`   // last sequence received
	Delivered uint64 `json:"delivered"` // last sequence that the receiver is done with
	// when the last document of the stream was fetched; zero while there are more
	DrySince   time.Time `json:"dry_since,omitzero"`
	DownSince  time.Time `json:"down_since,omitzero"` // when the connection was lost; zero while it is up
	DownReason string    `json:"down_reason,omitempty"`
	FetchedAt  time.Time `json:"fetched_at,omitzero"`  // when the last document was received; zero before the first
	Tokenizing bool      `json:"tokenizing,omitempty"` // the next document to deliver is fetched and not tokenized yet
	// EpochLeft counts the documents of an epoch that are not delivered, where the epoch is read in an order of its own.
	// Fetched and Delivered count its documents then.
	EpochLeft uint64 `json:"epoch_left,omitempty"`
	Empty     int64  `json:"empty"`      // skipped as empty since the start
	Undecoded int64  `json:"undecoded"`  // skipped as undecodable since the start
	Replaced  int64  `json:"replaced"`   // bytes of texts that are not UTF-8, in place of which there is U+FFFD
	Buffered  int64  `json:"buffered"`   // bytes of documents that are fetched and not delivered
	TextBytes int64  `json:"text_bytes"` // bytes of payload fetched since the start
	Tokens    int64  `json:"tokens"`     // tokens produced since the start
}

// Documents is the document stream as a Run needs it.
type Documents interface {
	// State says which stream this is and what it holds now.
	State(ctx context.Context) (StreamState, error)
	// Read starts a Source at sequence from. A from that the stream no longer holds is an error. An error with the reason
	// SOURCE_DOWN may pass: the caller tries again.
	Read(ctx context.Context, from uint64) (Source, error)
	// Content returns the content of one document again, equal to what the Source delivered.
	Content(ctx context.Context, sequence uint64) (Content, error)
	// Again calls f with each of several documents, equal to what the Source delivered, those that are not used too; f is
	// called by several goroutines at a time. The sequences ascend. What cannot be read now is left out, and Content says
	// why; an error says that no more can be read now.
	Again(ctx context.Context, sequences []uint64, f func(Document)) error
	// PackingHints returns what travels beside the length of the documents of a message again, equal to what the Source
	// delivered: one Part of a message that is one document.
	PackingHints(ctx context.Context, sequence uint64) ([]plan.Part, error)
	// Describe says where one document came from.
	Describe(ctx context.Context, sequence uint64) (Info, error)
	// Show returns one document for people, whatever is wrong with it.
	Show(ctx context.Context, sequence uint64) (View, error)
	// Lookup returns the sequences of the messages that have a producer's id, or hold a document that has it, in order.
	Lookup(ctx context.Context, id string) ([]uint64, error)
}

// Info is where a document is from, for the ledger.
type Info struct {
	Source      string `json:"source,omitempty"` // the name of its source
	Sequence    uint64 `json:"sequence"`
	Subject     string `json:"subject"`
	ID          string `json:"id,omitempty"` // producer's id
	Path        string `json:"path,omitempty"`
	Domain      string `json:"domain,omitempty"`
	ContentType string `json:"content_type"`
	// Weight is the factor of the loss of its tokens where that is not 1; else nil, and nil for messages with several
	// documents: View has those of each.
	Weight *float32 `json:"weight,omitempty"`
	// Meta has the values that the run takes along: strings, int64s and float64s. It is nil for messages with several
	// documents: View has those of each.
	Meta  map[string]any `json:"meta,omitempty"`
	Bytes int            `json:"bytes"` // of the payload
	Time  time.Time      `json:"time"`  // when the stream took it
}
