package document

import (
	"context"
	"time"

	"loaderd/loader/filter"
	"loaderd/loader/plan"
)

// Document is one message of the document stream, as delivered by a Source. Every sequence of the stream yields
// exactly one Document, including unused ones, so that the planner's cursor covers the whole log.
type Document struct {
	Source   int       // source number; set by the run
	Sequence uint64    // in the document stream
	ID       uint64    // hash of the producer's id of the document; 0 if it has none
	Skip     plan.Skip // why the document is not used; empty if it is used
	Cut      bool      // the run's configuration truncates its tokens
	// Attributes are the inputs of filters; nil for an unused document, and for a message with several.
	Attributes *filter.Attributes
	Content    // owned by the receiver, never changed
	plan.PackingHints
	// Parts are the documents of a message with several, whose tokens are concatenated in Content. ID, Loss, Attributes
	// and PackingHints are then per part.
	Parts []plan.Part
}

// Documents returns the documents of the message, one or more.
func (d Document) Documents() []plan.Part { return d.Arrival().Documents() }

// Arrival returns the planner's input for the document.
func (d Document) Arrival() plan.Arrival {
	return plan.Arrival{Source: d.Source, Sequence: d.Sequence, ID: d.ID, Length: d.Len(), Skip: d.Skip, Loss: d.Loss,
		Cut: d.Cut, Attributes: d.Attributes, PackingHints: d.PackingHints, Parts: d.Parts}
}

// Chunk is a few consecutive documents of a source.
type Chunk struct {
	Ready     <-chan struct{} // closed when Documents or Err is set
	Documents []Document      // at least one
	Err       error           // why no document follows; the chunk is then empty and the last one
}

// Source reads the documents of the stream in order. It retries transient failures.
type Source interface {
	// Chunks returns the queue of the chunks in order. A chunk may leave it before it is ready, so that its receiver can
	// wait for other events as well. The queue is never closed. After Close the caller must not receive from it.
	Chunks() <-chan *Chunk
	// ReleaseChunk releases the oldest received chunk, when the receiver no longer needs its documents. Until then they
	// count against the memory bound of the source.
	ReleaseChunk()
	// Status returns the progress of the source, for stall causes and metrics.
	Status() SourceStatus
	Close() error
}

// SourceStatus is the progress of a source. All sequences are of the document stream.
type SourceStatus struct {
	Last      uint64 `json:"last"`      // last sequence known to be in the stream
	Fetched   uint64 `json:"fetched"`   // last sequence received
	Delivered uint64 `json:"delivered"` // last sequence released by the receiver
	// when the last document of the stream was fetched; zero while more exist
	DrySince time.Time `json:"dry_since,omitzero"`
	// when Last was last requested from the stream. Responses can be slow, for example behind a large document.
	ConfirmedAt time.Time `json:"confirmed_at,omitzero"`
	DownSince   time.Time `json:"down_since,omitzero"` // when the connection was lost; zero while it is up
	DownReason  string    `json:"down_reason,omitempty"`
	FetchedAt   time.Time `json:"fetched_at,omitzero"`  // when the last document was received; zero before the first
	Tokenizing  bool      `json:"tokenizing,omitempty"` // the next document to deliver is fetched and not tokenized yet
	// EpochLeft is the number of undelivered documents of an epoch, if the epoch is read in its own order. Fetched and
	// Delivered then count its documents.
	EpochLeft uint64 `json:"epoch_left,omitempty"`
	Empty     int64  `json:"empty"`      // skipped as empty since the start
	Undecoded int64  `json:"undecoded"`  // skipped as undecodable since the start
	Replaced  int64  `json:"replaced"`   // bytes of texts that are not UTF-8 and were replaced by U+FFFD
	Buffered  int64  `json:"buffered"`   // bytes of documents that are fetched but not delivered
	TextBytes int64  `json:"text_bytes"` // payload of the messages read since the start (unit: bytes)
	Tokens    int64  `json:"tokens"`     // tokens produced since the start
}

// Documents is the interface of a document stream to a Run.
type Documents interface {
	// State returns the identity of the stream and its current contents.
	State(ctx context.Context) (StreamState, error)
	// Read starts a Source at sequence from. It returns an error if the stream no longer holds from. An error with the
	// reason SOURCE_DOWN may be transient, and the caller retries.
	Read(ctx context.Context, from uint64) (Source, error)
	// Content reads one document again and returns its content, equal to what the Source delivered.
	Content(ctx context.Context, sequence uint64) (Content, error)
	// Refetch calls f with each of the given documents, equal to what the Source delivered, including unused ones. It may
	// call f concurrently. The sequences must ascend. Documents that cannot be read now are omitted, and Content returns
	// the reason. An error means that no further documents can be read now.
	Refetch(ctx context.Context, sequences []uint64, f func(Document)) error
	// PackingHints reads the documents of a message again and returns their packing hints, equal to what the Source
	// delivered. A message that is one document has one Part.
	PackingHints(ctx context.Context, sequence uint64) ([]plan.Part, error)
	// Describe returns the origin of one document.
	Describe(ctx context.Context, sequence uint64) (Info, error)
	// ViewDocument returns one document for display, even if it is unusable.
	ViewDocument(ctx context.Context, sequence uint64) (View, error)
	// Lookup returns the sequences of the messages that have a producer's id or hold a document with that id, in order.
	Lookup(ctx context.Context, id string) ([]uint64, error)
}

// Info is the origin of a document, for the ledger.
type Info struct {
	Source      string `json:"source,omitempty"` // name of its source
	Sequence    uint64 `json:"sequence"`
	Subject     string `json:"subject"`
	ID          string `json:"id,omitempty"` // producer's id
	Path        string `json:"path,omitempty"`
	Domain      string `json:"domain,omitempty"`
	ContentType string `json:"content_type"`
	// Weight is the loss weight of its tokens if not 1; otherwise nil. It is nil for messages with several documents,
	// whose weights View has.
	Weight *float32 `json:"weight,omitempty"`
	// Meta has the values that the run keeps: strings, int64s and float64s. It is nil for messages with several
	// documents, whose values View has.
	Meta  map[string]any `json:"meta,omitempty"`
	Bytes int            `json:"bytes"` // of the payload
	Time  time.Time      `json:"time"`  // when the stream stored it
}
