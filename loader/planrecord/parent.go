package planrecord

import (
	"encoding/binary"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
)

// Parent is the run that a run was forked from. The new run plans what the parent's steps before Step left.
type Parent struct {
	Run         string `json:"run"`
	ID          string `json:"id"` // of that run
	Step        uint64 `json:"step"`
	Fingerprint string `json:"fingerprint"`
	// Sources are how far each was read, by the numbers of the sources.
	Sources []ParentSource `json:"sources"`
	State   uint64         `json:"state"`   // bytes of the planner's state with which the run begins
	Records uint64         `json:"records"` // behind the header that have that state
}

// ParentSource is how far the parent of a run had read a source.
type ParentSource struct {
	Epoch uint64 `json:"epoch,omitempty"` // that is read, from 0
	Taken uint64 `json:"taken"`           // documents of it
	// Sealed says that the parent knew where it ends: behind Last.
	Sealed bool   `json:"sealed,omitempty"`
	Last   uint64 `json:"last,omitempty"`
	// Removed says that it was removed, or that the run's configuration leaves it out: none of its documents follows.
	Removed bool   `json:"removed,omitempty"`
	From    uint64 `json:"from"` // sequence of the first document that the run needs
	// Config is how it is read, where the configuration of the run does not say so.
	Config *mixture.Source `json:"config,omitempty"`
}

// Place is how far the source is read.
func (s ParentSource) Place() mixture.Place { return mixture.Place{Epoch: s.Epoch, Taken: s.Taken} }

// ForkState is a part of the planner's state with which a fork begins. All parts follow the header directly.
type ForkState struct {
	Part  uint64 // from 0
	State []byte
}

// Kind is that of its records.
func (ForkState) Kind() byte { return kindForkState }

func (e ForkState) appendBody(b []byte) []byte {
	return append(binary.AppendUvarint(b, e.Part), e.State...)
}

func (e ForkState) String() string { return fmt.Sprintf("part %d of what the run inherited", e.Part) }

func readForkState(r *codec.Cursor) Entry {
	e := ForkState{Part: r.Uvarint()}
	e.State = r.Bytes(len(r.Rest))
	return e
}

// WithState returns the header of a fork, and its records behind it, where no record has more than limit bytes.
func (h Header) WithState(limit int) (Header, [][]byte) {
	room := limit - recordOverhead - binary.MaxVarintLen64
	parent, parts := *h.Parent, [][]byte{}
	for part := range slices.Chunk(h.State, room) {
		parts = append(parts, Encode(ForkState{uint64(len(parts)), part}))
	}
	parent.Records = uint64(len(parts))
	h.Parent = &parent
	return h, parts
}

// check refuses a header whose parts do not fit each other.
func (h Header) check() error {
	if h.Parent != nil && len(h.Parent.Sources) != len(h.Sources) {
		return fmt.Errorf("%d sources of run %s were read, and the run has %d", len(h.Parent.Sources), h.Parent.Run,
			len(h.Sources))
	}
	return nil
}
