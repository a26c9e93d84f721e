package plan

import (
	"fmt"
	"time"
)

// Stream identifies a document stream. A stream that was deleted and created again has another creation time, even
// with the same name.
type Stream struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

// Equal reports whether both are the same stream.
func (s Stream) Equal(t Stream) bool { return s.Name == t.Name && s.Created.Equal(t.Created) }

func (s Stream) String() string {
	return fmt.Sprintf("%s (created %s)", s.Name, s.Created.UTC().Format(time.RFC3339Nano))
}
