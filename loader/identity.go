package loader

import (
	"fmt"
	"time"
)

// Stream says which document stream one is: one that was deleted and made again has another time of creation, whatever its name.
type Stream struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

func (s Stream) equal(t Stream) bool { return s.Name == t.Name && s.Created.Equal(t.Created) }

func (s Stream) String() string {
	return fmt.Sprintf("%s (created %s)", s.Name, s.Created.UTC().Format(time.RFC3339Nano))
}

// StreamState is what a document stream says of itself at one moment.
type StreamState struct {
	Stream
	First uint64 // sequence that the stream still holds, 1 for a stream that never held anything
	Last  uint64 // last sequence in the stream
	// Trouble is why the stream may lose documents or get no more of them although it is there: its settings were changed. Else nil.
	Trouble error
}

// madeOf refuses a document stream that is not the one that the plan was made of: equal sequences would name other documents.
func (h Header) madeOf(s Stream) error {
	if h.Stream.equal(s) {
		return nil
	}
	how := fmt.Sprintf("this daemon reads %s", s)
	if s.Name == h.Stream.Name {
		how = fmt.Sprintf("the one that is there now is %s: it was deleted and made again", s)
	}
	return &Error{Reason: StreamMismatch, Message: fmt.Sprintf("the plan of run %s was made of document stream %s; %s", h.Run, h.Stream, how),
		Do: "set stream.name back, or restore the stream from its backup; to train on the documents that are there now, begin a new run (another run name)",
		Facts: map[string]string{"run": h.Run, "plan_stream": h.Stream.Name, "plan_stream_created": h.Stream.Created.UTC().Format(time.RFC3339Nano),
			"stream": s.Name, "stream_created": s.Created.UTC().Format(time.RFC3339Nano)}}
}
