package plan

import (
	"fmt"
	"time"
)

// Stream says which document stream one is: one that was deleted and made again has another time of creation, whatever
// its name.
type Stream struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

// Equal reports whether both are the same stream.
func (s Stream) Equal(t Stream) bool { return s.Name == t.Name && s.Created.Equal(t.Created) }

func (s Stream) String() string {
	return fmt.Sprintf("%s (created %s)", s.Name, s.Created.UTC().Format(time.RFC3339Nano))
}
